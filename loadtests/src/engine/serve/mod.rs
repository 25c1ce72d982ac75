//! What happens on a connection.

mod connection;
mod control;
mod generation;
mod listener;
mod plain;
mod reply;
mod routes;
mod stream;
mod wake;
mod writer;

pub(crate) use listener::listen;
