//! Documents in the tables, each request a transaction.

use std::time::Duration;

use bytes::Bytes;
use rand::RngExt;
use tokio_postgres::Row;

use crate::error::{ServiceError, StoreError, tell};
use crate::key::{Key, Uuid};
use crate::options::{Isolation, Locks, Options};
use crate::pool::{Lease, Pool};
use crate::sql::{self, Sql};
use crate::value::Json;

/// Mean pause before the second try of a transaction; it doubles to [`LONGEST`].
const PAUSE: Duration = Duration::from_millis(2);
const LONGEST: Duration = Duration::from_millis(250);

/// A document as it is posted or put.
#[derive(Debug)]
pub struct Document<'a> {
    /// The identities of the documents that it refers to.
    pub references: &'a [Key],
    /// Its JSON.
    pub body: &'a str,
}

/// A document as it was found.
#[derive(Debug)]
pub struct Found {
    /// Its address.
    pub id: Uuid,
    /// How often it was written.
    pub version: i32,
    /// Its JSON.
    pub body: Bytes,
}

/// What became of a document that was posted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Posted {
    /// Its address.
    pub id: Uuid,
    /// How often it was written.
    pub version: i32,
    /// Whether it is new.
    pub created: bool,
}

/// Documents in a database.
#[derive(Clone)]
pub struct Store {
    pool: Pool,
    locks: Locks,
    idle: Duration,
    isolation: Isolation,
    retries: u32,
}

impl Store {
    /// The documents of a database, once it is sure that it has the tables.
    ///
    /// # Errors
    /// Where the server cannot be asked; where the tables are not those of the workload, or do
    /// not keep identities apart.
    pub async fn open(pool: Pool, options: &Options) -> Result<Self, ServiceError> {
        let lease = pool.lease().await.map_err(|error| match error {
            StoreError::Away(why) => ServiceError::Server(format!("it cannot be reached ({why})")),
            other => ServiceError::Server(other.to_string()),
        });
        let mut lease = lease?;
        let rows = lease.query(&sql::SCHEMA, &[]).await;
        let rows = rows.map_err(|error| ServiceError::Server(tell(&error)))?;
        let has = |index| rows.first().is_some_and(|row: &Row| row.get(index));
        if !has(0) {
            return Err(ServiceError::NoSchema("tables document, alias and reference"));
        }
        if !has(1) {
            return Err(ServiceError::NoSchema("function write_references"));
        }
        if !has(2) {
            return Err(ServiceError::NotUnique);
        }
        drop(lease);
        let Options { locks, idle, isolation, retries, .. } = *options;
        Ok(Self { pool, locks, idle, isolation, retries })
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The document with this address.
    ///
    /// # Errors
    /// Where there is none, or the server cannot tell.
    pub async fn get(&self, resource: &str, id: Uuid) -> Result<Found, StoreError> {
        let rows = self.read(&sql::GET, &[&id, &resource]).await?;
        let row = rows.first().ok_or(StoreError::NotFound)?;
        Ok(Found { id, version: row.get(0), body: body(row, 1) })
    }

    /// The document with this identity.
    ///
    /// # Errors
    /// Where there is none, or the server cannot tell.
    pub async fn find(&self, resource: &str, identity: &Key) -> Result<Found, StoreError> {
        let rows = self.read(&sql::FIND, &[&identity.referential(), &resource]).await?;
        rows.first().map(found).ok_or(StoreError::NotFound)
    }

    /// Documents of a resource, the newest first.
    ///
    /// # Errors
    /// Where the server cannot tell.
    pub async fn query(
        &self,
        resource: &str,
        limit: i64,
        offset: i64,
    ) -> Result<Vec<Found>, StoreError> {
        let rows = self.read(&sql::QUERY, &[&resource, &limit, &offset]).await?;
        Ok(rows.iter().map(found).collect())
    }

    /// Whether the server answers.
    ///
    /// # Errors
    /// Where it does not.
    pub async fn check(&self) -> Result<(), StoreError> {
        self.read(&sql::SCHEMA, &[]).await.map(drop)
    }

    async fn read(
        &self,
        sql: &Sql,
        parameters: &[crate::pool::Parameter<'_>],
    ) -> Result<Vec<Row>, StoreError> {
        let mut lease = self.pool.lease().await?;
        lease.query(sql, parameters).await.map_err(|error| StoreError::of(&error))
    }

    /// Writes the document of an identity: a new one, or a new state of the one that there is.
    ///
    /// # Errors
    /// Where it refers to what does not exist, its identity is of another resource, it is no
    /// JSON that can be stored; where the server is away, or others always came before.
    pub async fn post(
        &self,
        resource: &str,
        identity: &Key,
        document: &Document<'_>,
    ) -> Result<Posted, StoreError> {
        let identity = identity.referential();
        let mut tries = self.tries();
        loop {
            match self.try_post(resource, identity, document).await {
                Err(StoreError::Met(reason)) => tries.again(reason).await?,
                done => return done,
            }
        }
    }

    async fn try_post(
        &self,
        resource: &str,
        identity: Uuid,
        document: &Document<'_>,
    ) -> Result<Posted, StoreError> {
        let targets = targets(document);
        let json = Json(document.body);
        let mut lease = self.pool.lease().await?;
        let before = lease.begin(self.isolation.begin(), &sql::IDENTIFY, &[&identity]).await;
        let before = before.map_err(|error| StoreError::of(&error))?;
        let rows = match before.first() {
            None => lease.query(&sql::INSERT, &[&identity, &resource, &json, &targets]).await,
            Some(row) => {
                let (partition, id): (i16, i64) = (row.get(0), row.get(1));
                let lock = sql::lock_by_id(self.locks);
                let locked = lease.query(&lock, &[&partition, &id]).await;
                let locked = locked.map_err(|error| StoreError::of(&error))?;
                let of: Option<&str> = locked.first().map(|row| row.get(0));
                if let Some(of) = of.filter(|of| *of != resource) {
                    return Err(StoreError::OtherResource(of.to_owned()));
                }
                self.idle().await;
                lease.query(&sql::UPDATE, &[&partition, &id, &0_i32, &json, &targets]).await
            }
        };
        let rows = rows.map_err(|error| StoreError::of(&error))?;
        // Another has posted or deleted it meanwhile.
        let Some(row) = rows.first() else { return Err(StoreError::Met("identity".to_owned())) };
        self.end(lease, row, document, &targets).await?;
        Ok(Posted { id: row.get(0), version: row.get(1), created: before.is_empty() })
    }

    /// Writes a new state of the document with this address, if it has this version; with
    /// `None`, whatever version it has. Returns the new version.
    ///
    /// # Errors
    /// Where there is none, or it has another version; else as [`Store::post`].
    pub async fn put(
        &self,
        resource: &str,
        id: Uuid,
        version: Option<i32>,
        document: &Document<'_>,
    ) -> Result<i32, StoreError> {
        let mut tries = self.tries();
        loop {
            match self.try_put(resource, id, version, document).await {
                Err(StoreError::Met(reason)) => tries.again(reason).await?,
                done => return done,
            }
        }
    }

    async fn try_put(
        &self,
        resource: &str,
        id: Uuid,
        version: Option<i32>,
        document: &Document<'_>,
    ) -> Result<i32, StoreError> {
        let targets = targets(document);
        let mut lease = self.pool.lease().await?;
        let lock = sql::lock_by_uuid(self.locks);
        let rows = lease.begin(self.isolation.begin(), &lock, &[&id, &resource]).await;
        let rows = rows.map_err(|error| StoreError::of(&error))?;
        let row = rows.first().ok_or(StoreError::NotFound)?;
        let (partition, row_id, found): (i16, i64, i32) = (row.get(0), row.get(1), row.get(2));
        if version.is_some_and(|version| version != found) {
            return Err(StoreError::OtherVersion(found));
        }
        self.idle().await;
        let (any_or, json) = (version.unwrap_or(0), Json(document.body));
        let rows =
            lease.query(&sql::UPDATE, &[&partition, &row_id, &any_or, &json, &targets]).await;
        let rows = rows.map_err(|error| StoreError::of(&error))?;
        // Another has put or deleted it meanwhile, where nothing was locked.
        let Some(row) = rows.first() else { return Err(StoreError::Met("version".to_owned())) };
        self.end(lease, row, document, &targets).await?;
        Ok(row.get(1))
    }

    /// What an application does between its statements, where that is to be seen.
    async fn idle(&self) {
        if !self.idle.is_zero() {
            tokio::time::sleep(self.idle).await;
        }
    }

    /// Commits what was written, where all that it refers to was found.
    async fn end(
        &self,
        mut lease: Lease,
        row: &Row,
        document: &Document<'_>,
        targets: &Vec<Uuid>,
    ) -> Result<(), StoreError> {
        if row.get::<_, i32>(6) > 0 {
            let rows = lease.query(&sql::MISSING, &[targets]).await;
            let rows = rows.map_err(|error| StoreError::of(&error))?;
            if rows.is_empty() {
                // They have been posted since.
                return Err(StoreError::Met("reference".to_owned()));
            }
            let number = |row: &Row| usize::try_from(row.get::<_, i64>(0)).ok();
            let missing = rows.iter().filter_map(number).filter_map(|n| n.checked_sub(1));
            let missing = missing.filter_map(|index| document.references.get(index)).cloned();
            return Err(StoreError::Missing(missing.collect()));
        }
        lease.commit().await.map_err(|error| StoreError::of_commit(&error))?;
        self.pool.metrics().referred([row.get(2), row.get(3), row.get(4), row.get(5)]);
        Ok(())
    }

    /// Deletes the document with this address.
    ///
    /// # Errors
    /// Where there is none, or others refer to it; where the server is away.
    pub async fn delete(&self, resource: &str, id: Uuid) -> Result<(), StoreError> {
        let mut tries = self.tries();
        loop {
            match self.try_delete(resource, id).await {
                Err(StoreError::Met(reason)) => tries.again(reason).await?,
                done => return done,
            }
        }
    }

    async fn try_delete(&self, resource: &str, id: Uuid) -> Result<(), StoreError> {
        let mut lease = self.pool.lease().await?;
        let rows = lease.query(&sql::DELETE, &[&id, &resource]).await;
        let rows = rows.map_err(|error| match error.code() {
            Some(&tokio_postgres::error::SqlState::FOREIGN_KEY_VIOLATION) => StoreError::Referred,
            _ => StoreError::of_commit(&error),
        })?;
        if rows.is_empty() { Err(StoreError::NotFound) } else { Ok(()) }
    }

    fn tries(&self) -> Tries<'_> {
        Tries { store: self, left: self.retries, pause: PAUSE }
    }
}

/// The tries that a transaction has, each after a longer pause, of which half is by chance, so
/// that those who met do not meet again.
struct Tries<'a> {
    store: &'a Store,
    left: u32,
    pause: Duration,
}

impl Tries<'_> {
    async fn again(&mut self, reason: String) -> Result<(), StoreError> {
        self.left = self.left.checked_sub(1).ok_or(StoreError::Contended)?;
        tracing::debug!(reason, "a transaction is tried again");
        let counted = crate::metrics::Reason { reason };
        self.store.pool.metrics().retries.get_or_create(&counted).inc();
        let chance = rand::rng().random_range(0.5..1.5);
        tokio::time::sleep(self.pause.mul_f64(chance)).await;
        self.pause = (self.pause * 2).min(LONGEST);
        Ok(())
    }
}

fn targets(document: &Document<'_>) -> Vec<Uuid> {
    document.references.iter().map(Key::referential).collect()
}

fn body(row: &Row, index: usize) -> Bytes {
    let Json(text) = row.get(index);
    Bytes::copy_from_slice(text.as_bytes())
}

fn found(row: &Row) -> Found {
    Found { id: row.get(0), version: row.get(1), body: body(row, 2) }
}
