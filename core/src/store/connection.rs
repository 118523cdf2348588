//! Connections to Redis: how one is made, and how commands are sent on it.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Pipeline, PushKind, RedisError, RedisResult, Value};
use tokio::sync::mpsc;

use super::target::Server;

/// Requests that may wait in the client; ours go one batch after the other.
const PIPELINE_BUFFER: usize = 1024;
/// What a server has said unasked and nobody has heard yet; more is dropped.
const MAX_NEWS: usize = 64;

/// One connection. Clones share it.
#[derive(Clone)]
pub(crate) struct Link {
    connection: MultiplexedConnection,
}

/// What a server says unasked.
pub(crate) enum News {
    /// A message of a channel that was subscribed to.
    Message,
    /// The connection is gone, and why.
    Gone(String),
}

impl Link {
    /// Makes a connection within `timeout`. The other end hears what is said on it unasked.
    pub(crate) async fn open(
        server: &Server,
        timeout: Duration,
    ) -> Result<(Link, mpsc::Receiver<News>), String> {
        let (tell, news) = mpsc::channel(MAX_NEWS);
        let on_push = move |push: redis::PushInfo| -> RedisResult<()> {
            match push.kind {
                PushKind::Disconnection => {
                    let _ = tell.try_send(News::Gone("Redis closed the connection".to_owned()));
                }
                PushKind::Message => {
                    let _ = tell.try_send(News::Message);
                }
                _ => {}
            }
            Ok(())
        };
        // We hold the deadlines ourselves: those of the client don't cover a reconnect.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(timeout))
            .set_response_timeout(None)
            .set_pipeline_buffer_size(PIPELINE_BUFFER)
            .set_push_sender(on_push);
        let connecting = server.client.get_multiplexed_async_connection_with_config(&config);
        match tokio::time::timeout(timeout, connecting).await {
            Ok(Ok(connection)) => Ok((Link { connection }, news)),
            Ok(Err(error)) => Err(explain(error)),
            Err(_) => Err(format!("no connection to {server} within {} ms", timeout.as_millis())),
        }
    }

    /// Sends commands and returns their replies, errors of the server among them. It is never
    /// sent again.
    pub(crate) async fn send(&mut self, commands: &Pipeline) -> Result<Vec<Value>, String> {
        self.connection.send_packed_commands(commands, 0, commands.len()).await.map_err(explain)
    }

    /// Hears the messages of a channel from now on.
    pub(crate) async fn subscribe(&mut self, channel: &str) -> Result<(), String> {
        self.connection.subscribe(channel).await.map_err(explain)
    }

    /// Sends one command; an error of the server is an error here.
    pub(crate) async fn ask(&mut self, command: &redis::Cmd) -> Result<Value, String> {
        let reply = self.connection.send_packed_command(command).await.map_err(explain)?;
        match reply {
            Value::ServerError(error) => Err(error.to_string()),
            reply => Ok(reply),
        }
    }
}

/// What the client says of an error. It names hosts and causes, never passwords.
pub(crate) fn explain(error: RedisError) -> String {
    error.to_string()
}
