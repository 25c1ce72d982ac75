//! What is waited for, what may be, and what drains nothing.

use super::order::parts;
use super::*;
use crate::check::manifests::finding::Scope;
use crate::check::manifests::view::View;
use serde_json::json;

const URL: &str = "http://streamgate:9180/api/v1/endpoints/10.0.0.1:8000/drain?wait=80s";
const TOKEN: &str = "Authorization: Bearer $TOKEN";

/// A container with a literal variable, one of a field of the pod, and some of Secrets.
fn container() -> Container {
    let secret = |name: &str| json!({"name": name, "valueFrom": {"secretKeyRef": {"key": "k"}}});
    let value = json!({"name": "c", "env": [
        {"name": "N", "value": "7"}, secret("S"), secret("TOKEN"), secret("E"), secret("BEARER"),
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "LATE", "value": "$(LATER):8000"}, {"name": "LATER", "value": "x"},
        {"name": "DRAIN", "value": "http://streamgate:9180/api/v1/endpoints/$(IP):8000/drain?wait=80s"},
    ]});
    Container::read(&View::new(&value, String::new(), Scope::default()))
}

fn reading(command: &[&str]) -> HookReading {
    let command: Vec<_> = command.iter().map(|&text| text.to_owned()).collect();
    read(&command, &container())
}

fn script(text: &str) -> HookReading {
    reading(&["sh", "-c", text])
}

fn python(text: &str) -> HookReading {
    reading(&["python3", "-c", text])
}

fn waits(sleeps: u64, perhaps: u64) -> HookReading {
    let (sleeps, perhaps) = (Duration::from_secs(sleeps), Duration::from_secs(perhaps));
    HookReading::Bounded(Hook { sleeps, perhaps, call: None }, None)
}

fn drains(sleeps: u64, perhaps: u64, wait: u64, gives_up: Option<u64>) -> HookReading {
    let call =
        DrainCall { wait: Duration::from_secs(wait), gives_up: gives_up.map(Duration::from_secs) };
    let hook = Hook {
        sleeps: Duration::from_secs(sleeps),
        perhaps: Duration::from_secs(perhaps),
        call: Some(call),
    };
    let at = "streamgate:9180".to_owned();
    let what = What::Endpoint(parts("10.0.0.1:8000"));
    HookReading::Bounded(hook, Some(Drained { what, at }))
}

/// A call that Streamgate takes.
fn curl(flags: &str) -> String {
    format!("curl -sf {flags} -H \"{TOKEN}\" '{URL}'")
}

fn program(call: &str) -> String {
    format!(
        "import os, time, urllib.request\n\
         head = {{\"Authorization\": \"Bearer \" + open(\"/t\").read()}}\n\
         {call}\n"
    )
    .replace("requests.", "import requests; requests.")
    .replace("httpx.", "import httpx; httpx.")
}

#[test]
fn sleeps_are_added_up() {
    for command in [
        &["sleep", "10"][..],
        &["/bin/sh", "-c", "sleep 10"],
        &["sh", "-c", "echo bye; sleep 3 && sleep $N"],
        &["sh", "-c", "true || sleep 5\nsleep 10"],
        &["sh", "-c", "false || sleep 10"],
        &["sh", "-c", "false && sleep 3; sleep 10; exit 0; sleep 20"],
        &["sh", "-c", "(sleep 4; sleep 6)"],
        &["sh", "-c", "if sleep 10; then exit 0; else exit 1; fi"],
        &["bash", "-euo", "pipefail", "-c", "sleep 10"],
        &["sh", "-c", "for i in 1 2 3 4 5; do sleep 2; done"],
        &["bash", "-c", "sleep 10 &>/dev/null"],
        &["bash", "-c", "set -euo pipefail; set +e; test -f /x; sleep 10"],
        &["sh", "-ec", "true && sh -c 'sleep 4 && sleep 6'"],
        &["python3", "-c", "import time; time.sleep(10)"],
        &["bash", "-c", "exec sleep 10s; sleep 5"],
    ] {
        assert_eq!(reading(command), waits(10, 0), "{command:?}");
    }
}

#[test]
fn what_may_not_run_or_is_not_waited_for_proves_nothing() {
    for text in [
        "sleep 10 &",
        "nohup sleep 10 >/dev/null 2>&1 &",
        "(sleep 10 &)",
        "(sleep 4; sleep 6) &",
        "{ sleep 4; sleep 6; } &",
        "true && sleep 10 &",
        "[ -f /x ] && sleep 10",
        "[ -f /x ] && { true; sleep 10; }",
        "[ -f /x ] &&\n sleep 10",
        "[ -f /x ] || (sleep 10)",
        "if [ -f /x ]; then sleep 10; fi",
        "if [ -f /x ]; then true; else sleep 4; sleep 6; fi",
        "[ -f /x ] && exit 0; sleep 10",
        "if [ -f /x ]; then exit 0; fi; sleep 10",
        "set -e; [ -f /x ]; sleep 10",
        "set -o pipefail -o errexit; [ -f /x ]; sleep 10",
        "kill -TERM 1; sleep 10",
        "rm /tmp/ready && sleep 10",
        "cd /tmp && sleep 10",
        "set -e\nrm /tmp/ready\nsleep 10",
        "set -euo pipefail; sleep 10",
        "sleep 10 &>/dev/null",
        "for i in 1 2 3 4 5; do sleep 2; break; done",
        "python3 -c 'import os, time\nx = os.environ[\"N\"]\ntime.sleep(10)'",
        "python3 -c 'import time\nx = open(\"/t\")\ntime.sleep(10)'",
        "sleep 10 | cat",
        "x=$(sleep 10 &)",
        "python3 -c 'import time\nif True:\n  time.sleep(10)'",
        "python3 -c 'import time, sys\nsys.exit(0)\ntime.sleep(10)'",
        "timeout 10 /scripts/stop.sh",
        "timeout 10 sh -c 'while true; do sleep 1; done'",
        "curl -m 10 http://localhost:8000/metrics",
    ] {
        assert_eq!(script(text), waits(0, 10), "{text}");
    }
    assert_eq!(reading(&["sh", "-e", "-c", "test -f /x\nsleep 10"]), waits(0, 10));
    assert_eq!(script("sleep 10 & sleep 3"), waits(3, 10));
    assert_eq!(script("true || sleep 10"), waits(0, 0));
    assert_eq!(script("exit 0; sleep 10"), waits(0, 0));
}

#[test]
fn drain_calls_carry_their_deadline() {
    let head = TOKEN;
    assert_eq!(
        reading(&["curl", "-fsS", "-X", "POST", "-m", "85", "-H", "@/etc/token-header", URL]),
        drains(0, 0, 80, Some(85))
    );
    for text in [
        curl("--max-time 85 -X POST"),
        curl("-m85 -XPOST"),
        curl("-fsSm 85 --request POST"),
        curl("-m 85 -d ''"),
        curl("-m 85 --json '{}'"),
        format!("curl -m 85 -X POST --oauth2-bearer \"$TOKEN\" --url '{URL}'"),
        format!("curl -m 85 -X POST -H @/etc/token-header '{URL}'"),
        format!("TOKEN=$(cat /t) && {}", curl("-m 85 -X POST")),
        format!("{} | cat", curl("-m 85 -X POST")),
        format!("code=$({})", curl("-m 85 -X POST")),
        format!("if ! {}; then echo no; fi", curl("-m 85 -X POST")),
        format!("timeout 85 {}", curl("--retry 5 -X POST")),
        format!("timeout 85 sh -c 'curl -X POST -H \"{head}\" \"{URL}\"'"),
        format!("wget -qO- -T 85 -t 1 --post-data= --header=\"{head}\" '{URL}'"),
        format!("wget --timeout=85 --tries=1 --method=post --header \"{head}\" '{URL}'"),
        format!("timeout 85 wget --post-data='' --header \"{head}\" '{URL}'"),
        format!("URL='{URL}'; AUTH=\"{head}\"; curl -m 85 -X POST -H \"$AUTH\" \"$URL\""),
        format!("curl -m 85 -X POST -H \"Authorization: $BEARER\" '{URL}'"),
        format!("timeout 85 sh -c 'until {}; do sleep 1; done'", curl("-X POST").replace('\'', "")),
        format!("command -v curl; {}", curl("-m 85 -X POST")),
    ] {
        assert_eq!(script(&text), drains(0, 0, 80, Some(85)), "{text}");
    }
    // In the same pod no token is needed.
    let beside = format!("curl -m 85 -X POST '{}'", URL.replace("streamgate:", "127.0.0.1:"));
    assert!(matches!(script(&beside), HookReading::Bounded(..)), "{:?}", script(&beside));
    let text = format!("{} || sleep 10", curl("--max-time 85 -X POST"));
    assert_eq!(script(&text), drains(0, 10, 80, Some(85)));
    assert_eq!(script(&format!("timeout 60 {}", curl("-X POST"))), drains(0, 0, 80, Some(60)));
    let own = "streamgate drain --admin http://streamgate:9180 --endpoint 10.0.0.1:8000 --wait 2m";
    let own = format!("export STREAMGATE_ADMIN_TOKEN=$(cat /t); {own}");
    assert_eq!(script(&own), drains(0, 0, 120, None));
    let limited = own.replace("; streamgate", "; timeout 130 streamgate");
    assert_eq!(script(&limited), drains(0, 0, 120, Some(130)));
    let first = curl("-m 85 -X POST");
    assert_eq!(script(&format!("{first} || {first}")), drains(0, 85, 80, Some(85)));
    let retried = curl("-m 85 -X POST --retry 3 --retry-max-time 60");
    assert_eq!(script(&retried), drains(0, 60, 80, Some(85)));
}

#[test]
fn the_endpoint_is_followed_through_variables() {
    let path = "http://streamgate:9180/api/v1/endpoints";
    let head = "head = {'Authorization': 'Bearer ' + t}";
    for (found, endpoint) in [
        (script("curl -m 85 -X POST -H @/t \"$DRAIN\""), "\u{E000}IP\u{E001}:8000"),
        (
            script(&format!("U={path}/$IP:8000; curl -m 85 -X POST -H @/t $U/drain?wait=80s")),
            "\u{E000}IP\u{E001}:8000",
        ),
        (
            script(&format!("curl -m 85 -X POST -H @/t \"{path}/%5B$IP%5D:8000/drain?wait=80s\"")),
            "[\u{E000}IP\u{E001}]:8000",
        ),
        (
            script(&format!(
                "curl -m 85 -X POST -H @/t '{path}/'$(hostname -i)':8/drain?wait=80s'"
            )),
            "\u{E000}\u{E001}:8",
        ),
        (
            python(&format!(
                "import os, requests\n{head}\nrequests.post(f\"{path}/{{os.environ['IP']}}:8000\" +\n  \
                 '/drain?wait=80s', headers=head, timeout=(3, 85))"
            )),
            "\u{E000}IP\u{E001}:8000",
        ),
    ] {
        let HookReading::Bounded(_, Some(Drained { what: What::Endpoint(found), .. })) = found
        else {
            panic!("{endpoint:?}: {found:?}")
        };
        assert_eq!(found, parts(endpoint));
    }
}

#[test]
fn python_is_read_by_its_words() {
    let call = format!(
        "call = urllib.request.Request(\"{URL}\", method=\"POST\", headers=head)\n\
         try:\n    urllib.request.urlopen(call, timeout=85)\nexcept Exception:\n    time.sleep(10)"
    );
    assert_eq!(python(&program(&call)), drains(0, 10, 80, Some(85)));
    let document = format!("python3 - <<'EOF'\n{}EOF\n", program(&call));
    assert_eq!(script(&document), drains(0, 10, 80, Some(85)));
    for call in [
        format!("requests.post('{URL}', headers=head, timeout=85)"),
        format!("urllib.request.urlopen(Request('{URL}', data=b'', headers=head), timeout=85)"),
        format!("def main():\n    httpx.post('{URL}', headers=head, timeout=85)\nmain()"),
        format!("if __name__ == '__main__':\n  requests.post('{URL}', headers=head, timeout=85)"),
    ] {
        assert_eq!(python(&program(&call)), drains(0, 0, 80, Some(85)), "{call}");
    }
    let found = python(&program(
        "requests.post('http://s:9180/api/v1/endpoints/' + os.environ['E'] + '/drain?wait=80s', \
         headers=head, timeout=85)",
    ));
    let HookReading::Bounded(_, Some(Drained { what: What::Endpoint(found), .. })) = found else {
        panic!("{found:?}")
    };
    assert_eq!(found, [Part::Variable("E".to_owned())]);
    let found = python(&program(
        "requests.post(f\"http://s:9180/api/v1/endpoints/{os.environ['IP']}:8000/drain?wait=80s\", \
         headers=head, timeout=85)",
    ));
    let HookReading::Bounded(_, Some(Drained { what: What::Endpoint(found), .. })) = found else {
        panic!("{found:?}")
    };
    assert_eq!(found, [Part::Variable("IP".to_owned()), Part::Text(":8000".to_owned())]);
}

#[test]
fn what_drains_nothing_is_told() {
    let at = |path: &str| format!("curl -m 85 -X POST -H \"{TOKEN}\" 'http://s:9180{path}'");
    for text in [
        curl("-m 85"),
        curl("-m 85 -X DELETE"),
        curl("-m 85 -I"),
        curl("-m 85 -G -d ''"),
        curl("-m 85 -X post"),
        curl("--max-time=85 -X POST"),
        curl("-m 85s -X POST"),
        format!("curl -m 85 -X POST '{URL}'"),
        format!("timeout 85 {}", curl("")),
        format!("wget -T 85 -t 1 --header=\"{TOKEN}\" '{URL}'"),
        format!("wget -T 85 -t 1 --method=DELETE --header=\"{TOKEN}\" '{URL}'"),
        at("/api/v1/endpoints/10.0.0.1:8000/drain?wait=80"),
        at("/api/v1/endpoints/10.0.0.1:8000/drain?wait=2h"),
        at("/drain?wait=80s"),
        at("/prestop?wait=80s"),
        "streamgate drain".to_owned(),
        "streamgate drain --admin http://s:9180 --endpoint a:1 --wait 80s".to_owned(),
        "STREAMGATE_ADMIN_TOKEN=t streamgate drain --admin s:9180 --endpoint a:1 --wait 80s".to_owned(),
        "STREAMGATE_ADMIN_TOKEN=t streamgate drain --admin http://s:9180/api --endpoint a:1 --wait 80s"
            .to_owned(),
        curl("-m 85 -X POST").replace('"', "'"),
        curl("-m 85 -X POST").replace("10.0.0.1", "$IP"),
        curl("-m 85 -X POST").replace("http:", "https:"),
        curl("-m 85 -X POST").replace("9180/", "9180/gw/"),
        curl("-m 85 -X POST").replace("9180/", "9180//"),
        curl("-m 85 -X POST").replace("wait=80s", "wait=80 s"),
        curl("-m 85 -X POST").replace("Bearer ", "Basic "),
        curl("-m 85 -X POST").replace("Bearer $TOKEN", "$(cat /t)"),
        curl("-m 85 -X POST").replace("Bearer $TOKEN", ""),
    ] {
        assert!(matches!(script(&text), HookReading::Useless(_)), "{text}: {:?}", script(&text));
    }
}

#[test]
fn python_that_drains_nothing_is_told() {
    for call in [
        format!("urllib.request.urlopen(Request('{URL}', headers=head), timeout=85)"),
        format!("urllib.request.urlopen(Request('{URL}', method='PUT', headers=head), timeout=85)"),
        format!("requests.delete('{URL}', headers=head, timeout=85)"),
        format!("url = '{URL}'\n# requests.post(url, headers=head, timeout=85)\ntime.sleep(10)"),
        format!("url = '{URL}'\n'''requests.post(url, headers=head, timeout=85)'''"),
    ] {
        let found = python(&program(&call));
        assert!(matches!(found, HookReading::Useless(_)), "{call}: {found:?}");
    }
    let connection = format!(
        "import http.client\nhead = {{'Authorization': 'Bearer ' + t}}\n\
         c = http.client.HTTPConnection('s:9180', timeout=85)\nc.request('POST', '{URL}', headers=head)"
    );
    let unfilled = "import requests\nhead = {'Authorization': 'Bearer {token}'}\n\
                    requests.post('URL', headers=head, timeout=85)";
    let braces = URL.replace("10.0.0.1", "{ip}");
    let late = "import os, requests\nhead = {'Authorization': 'Bearer ' + t}\n\
                requests.post('http://s:9180/api/v1/endpoints/' + os.environ['LATE'] + '/drain?wait=80s', \
                headers=head, timeout=85)";
    let found = python(late);
    assert!(matches!(found, HookReading::Useless(_)), "{found:?}");
    for program in [
        connection,
        unfilled.replace("URL", URL),
        unfilled.replace("'Bearer", "f'Bearer").replace("URL", &braces),
    ] {
        let found = python(&program);
        assert!(matches!(found, HookReading::Useless(_)), "{program}: {found:?}");
    }
    let found = python(&format!("import requests\nrequests.post('{URL}', timeout=85)"));
    assert!(matches!(found, HookReading::Useless(_)), "no token: {found:?}");
    for path in
        ["/prestop?wait=abc", "/api/v1/drain?wait=80s", "/api/v1/endpoints/a:1/drain?wait=80s"]
    {
        assert!(matches!(read_get(path), HookReading::Useless(_)), "{path}");
    }
}

#[test]
fn what_may_wait_for_ever_is_told() {
    for text in [
        "while true; do sleep 1; done".to_owned(),
        format!("curl -X POST -m 85 -H \"{TOKEN}\" http://s/api/v1/endpoints/x:1/drain"),
        curl("-X POST"),
        curl("-X POST --connect-timeout 5"),
        curl("-X POST -m 0"),
        curl("-X POST --retry 5 -m 85"),
        format!("wget -T 85 --post-data= --header=\"{TOKEN}\" '{URL}'"),
        format!("wget --post-data= --header=\"{TOKEN}\" '{URL}'"),
        "curl http://localhost:8000/metrics".to_owned(),
        "sleep infinity".to_owned(),
        "timeout 0 sleep infinity".to_owned(),
    ] {
        let found = script(&text);
        assert!(matches!(found, HookReading::Unbounded(_)), "{text}: {found:?}");
    }
    for call in [
        format!("requests.post('{URL}', headers=head)"),
        format!("requests.post('{URL}', headers=head, timeout=None)"),
        "while True:\n    time.sleep(1)".to_owned(),
    ] {
        let found = python(&program(&call));
        assert!(matches!(found, HookReading::Unbounded(_)), "{call}: {found:?}");
    }
}

#[test]
fn what_cannot_be_seen_is_told() {
    let post = curl("-m 85 -X POST");
    for text in [
        "/scripts/stop.sh".to_owned(),
        "/scripts/drain.sh --wait 80s".to_owned(),
        "sleep $S".to_owned(),
        "sleep $UNSET".to_owned(),
        "sleep 10 & wait".to_owned(),
        "sleep 1m30s".to_owned(),
        "sleep 10sec".to_owned(),
        "sleep 10\u{a0}".to_owned(),
        "sleep".to_owned(),
        "timeout 1m30s sleep 5".to_owned(),
        "sleep 10; echo \"done".to_owned(),
        "sleep 10 )".to_owned(),
        "cat <<EOF\n  x\n  EOF\nsleep 10".to_owned(),
        "N=0; [ -f /slow ] && N=60; sleep $N".to_owned(),
        curl("-m 85 -X POST --no-such-option"),
        curl("-m 85 -X POST --speed-limit 10 --speed-time 1"),
        curl("-m 85 -X POST").replace("$TOKEN", "$UNSET"),
        curl("-m 85 -X POST").replace("10.0.0.1", "'$UNSET'"),
        format!("set -euo pipefail; {}", curl("-m 85 -X POST")),
        format!("for i in 1 2 3; do {}; done", curl("-m 85 -X POST")),
        "stop() { sleep 10; }; stop".to_owned(),
        format!("{post} &"),
        format!("[ -f /x ] && {post}"),
        format!("if [ -f /x ]; then {post}; fi"),
        format!("set -e; test -f /x; {post}"),
        format!("{post}; {post}"),
        format!("{post} '{URL}'"),
        post.replace("wait=80s", "wait=$WAIT").replace('\'', "\""),
    ] {
        let found = script(&text);
        assert!(matches!(found, HookReading::Unreadable(_)), "{text}: {found:?}");
    }
    let call = format!("requests.post('{URL}', headers=head, timeout=85)");
    for call in [
        format!("if os.path.exists('/x'):\n    {call}"),
        format!("def main():\n    {call}"),
        format!("import sys\nsys.exit(0)\n{call}"),
        format!("import subprocess\n{call}"),
        format!("import asyncio\nasync def main():\n    {call}\nasyncio.run(main())"),
        format!("f = lambda: {call}"),
        format!("x = (1\n{call}"),
        format!("os.environ['UNSET']\n{call}"),
        call.replace("timeout=85", "timeout=LIMIT"),
        call.replace("wait=80s", "wait={}").replace("={}'", "={}'.format(w)"),
    ] {
        let found = python(&program(&call));
        assert!(matches!(found, HookReading::Unreadable(_)), "{call}: {found:?}");
    }
    let folded = program(&call).replace('\n', " ");
    let found = python(&folded);
    assert!(matches!(found, HookReading::Unreadable(_)), "{folded}: {found:?}");
    let found = python("time.sleep(10)");
    assert!(matches!(found, HookReading::Unreadable(_)), "no import: {found:?}");
    for command in [&["python3", "/x.py"][..], &["python3", "-c", "print(1)"]] {
        assert!(matches!(reading(command), HookReading::Unreadable(_)), "{command:?}");
    }
}

proptest::proptest! {
    #[test]
    fn no_program_is_too_odd(text in "[ -~\n\\\\'\"#(){}=é]{0,120}") {
        for program in [&text, &format!("urlopen(\"/api/v1/endpoints/{text}"), &format!("x = '{text}/prestop?wait=1s'.post(")] {
            python(program);
            script(program);
            script(&format!("curl -m 5 {program}"));
        }
    }
}
