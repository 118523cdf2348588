//! Connections to Redis: how one is made, and how commands are sent on it.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Pipeline, PushKind, RedisError, RedisResult, Value};
use tokio::sync::mpsc;

use super::target::Target;

/// Requests that may wait in the client; ours go one batch after the other.
const PIPELINE_BUFFER: usize = 1024;

/// One connection. Clones share it.
#[derive(Clone)]
pub(crate) struct Link {
    connection: MultiplexedConnection,
}

impl Link {
    /// Makes a connection within `timeout`. The other end of it is told when it is gone.
    pub(crate) async fn open(
        target: &Target,
        timeout: Duration,
    ) -> Result<(Link, mpsc::Receiver<String>), String> {
        let Target::Redis(info) = target else { return Err("memory:// has no connection".to_owned()) };
        let (lose, lost) = mpsc::channel(1);
        let on_push = move |push: redis::PushInfo| -> RedisResult<()> {
            if push.kind == PushKind::Disconnection {
                let _ = lose.try_send("Redis closed the connection".to_owned());
            }
            Ok(())
        };
        // We hold the deadlines ourselves: those of the client don't cover a reconnect.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(timeout))
            .set_response_timeout(None)
            .set_pipeline_buffer_size(PIPELINE_BUFFER)
            .set_push_sender(on_push);
        let client = Client::open((**info).clone()).map_err(explain)?;
        let connecting = client.get_multiplexed_async_connection_with_config(&config);
        match tokio::time::timeout(timeout, connecting).await {
            Ok(Ok(connection)) => Ok((Link { connection }, lost)),
            Ok(Err(error)) => Err(explain(error)),
            Err(_) => Err(format!("no connection within {} ms", timeout.as_millis())),
        }
    }

    /// Sends commands and returns their replies, errors of the server among them. It is never
    /// sent again.
    pub(crate) async fn send(&mut self, commands: &Pipeline) -> Result<Vec<Value>, String> {
        self.connection.send_packed_commands(commands, 0, commands.len()).await.map_err(explain)
    }
}

/// What the client says of an error. It names hosts and causes, never passwords.
pub(crate) fn explain(error: RedisError) -> String {
    error.to_string()
}
