//! Answers that are not streams: nothing is sent before everything is generated.

use super::connection::After;
use super::generation::{Exchange, Running};
use super::reply;
use super::wake::{Wake, wake};
use crate::engine::faults::Trigger;
use crate::engine::phase::Phase;
use crate::engine::wire::errors::ApiError;
use crate::engine::wire::{Api, Choice, Finish, Usage};
use crate::http1::{Answer, PeerGone};

/// Generates, then answers.
pub(super) async fn answer(
    exchange: &mut Exchange<'_>,
    mut running: Running,
) -> Result<After, PeerGone> {
    let texts = match generate(exchange, &mut running).await? {
        Ok(texts) => texts,
        Err(Phase::Frozen) => {
            exchange.release(&mut running, Finish::Abort);
            return Err(reply::stall(exchange.io).await);
        }
        Err(_) => {
            exchange.release(&mut running, Finish::Abort);
            return exchange.finish(ApiError::engine_dead().answer(None)).await;
        }
    };
    let mut finish = exchange.natural_finish(&running.request);
    match plain_trigger(exchange) {
        Some(Trigger::Stall) => return Err(reply::stall(exchange.io).await),
        Some(Trigger::Error) => {
            exchange.release(&mut running, Finish::Abort);
            return exchange.finish(ApiError::engine_dead().answer(None)).await;
        }
        Some(Trigger::Abort) => finish = Finish::Abort,
        _ => {}
    }
    exchange.release(&mut running, finish);
    let answer = Answer::json(200, body(exchange, &mut running, texts, finish));
    exchange.finish(answer).await
}

/// The fault of a plain answer: its number of events does not matter.
fn plain_trigger(exchange: &Exchange<'_>) -> Option<Trigger> {
    let faults = &exchange.faults;
    [
        (faults.stall_after, Trigger::Stall),
        (faults.error_after, Trigger::Error),
        (faults.abort_after, Trigger::Abort),
    ]
    .into_iter()
    .find(|(n, _)| n.is_some())
    .map(|(_, trigger)| trigger)
}

/// The texts of all choices, or the phase that ended the generation.
async fn generate(
    exchange: &mut Exchange<'_>,
    running: &mut Running,
) -> Result<Result<Vec<String>, Phase>, PeerGone> {
    let mut texts = vec![String::new(); running.request.choices() as usize];
    let mut given = vec![0_u32; texts.len()];
    let mut left = texts.len();
    let mut phase = exchange.shared.phase.subscribe();
    while left > 0 {
        let tick = match wake(exchange.io, running.source(), &mut phase, None).await {
            Wake::Token(tick) => tick,
            Wake::Phase(phase) => return Ok(Err(phase)),
            Wake::Gone => return Err(PeerGone),
            Wake::Silent => continue,
        };
        let mut next = Some(tick);
        let mut tokens = 0;
        while let Some(tick) = next {
            running.measured.token(tick.at);
            let at = tick.choice as usize;
            running.request.push_word(&mut texts[at], tick.choice, given[at]);
            given[at] += 1;
            left -= usize::from(tick.last);
            tokens += 1;
            next = running.source().and_then(|s| s.try_next());
        }
        exchange.tokens(tokens);
    }
    Ok(Ok(texts))
}

fn body(
    exchange: &Exchange<'_>,
    running: &mut Running,
    texts: Vec<String>,
    finish: Finish,
) -> String {
    if exchange.api == Api::Embeddings {
        return exchange.embeddings(&running.request);
    }
    let choices: Vec<Choice> = texts.into_iter().map(|text| Choice { text, finish }).collect();
    let usage =
        Usage { prompt: running.measured.prompt_tokens, completion: running.measured.tokens };
    running.wire.plain(&choices, usage)
}
