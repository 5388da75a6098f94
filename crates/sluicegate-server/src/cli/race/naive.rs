//! The limiter that people write first, on a real Redis: read the counter, compare, count. Known to be wrong: between
//! the read and the count others read the same number.

use redis::{AsyncCommands, AsyncConnectionConfig, Client, RedisError, aio::MultiplexedConnection};

use super::{Contender, Failure, PATIENCE, Race, RaceError, Racer};
use crate::{causes::with_causes, store::StoreUrl};

/// How long a counter outlives its round if the race is cut short, in seconds.
const TTL_S: u64 = 3_600;

/// GET, compare, INCR.
pub(super) struct GetCheckIncr {
    client: Client,
    name: String,
    limit: u32,
}

impl GetCheckIncr {
    pub(super) fn open(url: &StoreUrl, race: Race) -> Result<Self, Failure> {
        let StoreUrl::Redis(config) = url else {
            let problem = Failure::usage("the limiter `get-check-incr` counts on a Redis");
            return Err(problem.hint("add `--store redis://127.0.0.1:6379`"));
        };
        let client = config.client().map_err(|error| Failure::usage(with_causes(&error)))?;
        Ok(Self { client, name: format!("get-check-incr on {config}"), limit: race.limit })
    }

    async fn connect(&self) -> Result<MultiplexedConnection, RaceError> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(PATIENCE))
            .set_response_timeout(Some(PATIENCE));
        self.client.get_multiplexed_async_connection_with_config(&config).await.map_err(lost)
    }
}

fn lost(error: RedisError) -> RaceError {
    RaceError::unanswered("redis")(error.into())
}

impl Contender for GetCheckIncr {
    type Racer = NaiveRacer;

    fn name(&self) -> String {
        self.name.clone()
    }

    async fn prepare(&self, key: &str, used: u32) -> Result<(), RaceError> {
        self.connect().await?.set_ex(key, used, TTL_S).await.map_err(lost)
    }

    /// A connection of its own for each, as the instances of a service have.
    async fn racer(&self, key: &str) -> Result<NaiveRacer, RaceError> {
        Ok(NaiveRacer { connection: self.connect().await?, key: key.to_owned(), limit: self.limit })
    }

    async fn clear(&self, key: &str) -> Result<(), RaceError> {
        self.connect().await?.del(key).await.map_err(lost)
    }
}

/// One request of one instance.
pub(super) struct NaiveRacer {
    connection: MultiplexedConnection,
    key: String,
    limit: u32,
}

impl Racer for NaiveRacer {
    async fn run(mut self) -> Result<bool, RaceError> {
        let used: u32 = self.connection.get(&self.key).await.map_err(lost)?;
        if used >= self.limit {
            return Ok(false);
        }
        let _: u32 = self.connection.incr(&self.key, 1).await.map_err(lost)?;
        Ok(true)
    }
}
