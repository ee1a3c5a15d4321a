//! Where rows go: a table, with a coalescer's handle for each set of columns that rows bring.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use walwright_coalesce::{Coalescer, Conflict, ConnectError, Options, TableOptions, TextRow};

use crate::connect::Server;
use crate::error::IngestError;
use crate::table::{Mapping, Table};

/// Most sets of columns that the rows of a table may bring.
const MOST_SHAPES: usize = 256;

/// A table that rows are written to. A column that a row does not bring takes its default.
pub struct Destination {
    /// Of all columns.
    whole: Coalescer<TextRow>,
    pub(crate) server: Server,
    pub(crate) table: Arc<Table>,
    options: TableOptions,
    /// How long a server that is away is waited for.
    pub(crate) patience: Duration,
    shapes: RwLock<HashMap<Vec<u16>, Coalescer<TextRow>>>,
}

impl Destination {
    /// Connects to write a table.
    ///
    /// # Errors
    /// Where the server cannot be reached, or the table is not as it was named.
    pub async fn connect(
        server: &Server,
        table: &str,
        mapping: &Mapping,
        options: Options,
    ) -> Result<Self, IngestError> {
        let client = server.connect().await?;
        let table = Arc::new(Table::find(&client, table, mapping).await?);
        drop(client);
        let (table_options, patience) = (options.table.clone(), options.retry.within);
        let columns = names(&table, &table.writable());
        let whole = Coalescer::connect_with(
            server.config.clone(),
            server.tls.clone(),
            &table.name,
            &columns,
            options,
        )
        .await?;
        Ok(Self::new(whole, server.clone(), table, table_options, patience))
    }

    /// Another table, over the same connections.
    ///
    /// # Errors
    /// As there.
    pub async fn table(&self, table: &str, mapping: &Mapping) -> Result<Self, IngestError> {
        let client = self.server.connect().await?;
        let table = Arc::new(Table::find(&client, table, mapping).await?);
        let columns = names(&table, &table.writable());
        let options = self.options.clone();
        let whole = self.whole.table_with(&table.name, &columns, options.clone()).await?;
        Ok(Self::new(whole, self.server.clone(), table, options, self.patience))
    }

    fn new(
        whole: Coalescer<TextRow>,
        server: Server,
        table: Arc<Table>,
        options: TableOptions,
        patience: Duration,
    ) -> Self {
        let shapes = HashMap::from([(table.writable(), whole.clone())]);
        Self { whole, server, table, options, patience, shapes: RwLock::new(shapes) }
    }

    /// The coalescer, whatever the columns.
    pub fn coalescer(&self) -> &Coalescer<TextRow> {
        &self.whole
    }

    /// The handle that writes these columns.
    ///
    /// # Errors
    /// What is wrong with a row that brings these columns, or that the server cannot be reached.
    pub(crate) async fn handle(&self, columns: &[u16]) -> Result<Coalescer<TextRow>, NoHandle> {
        let count = {
            let shapes = self.shapes.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(handle) = shapes.get(columns) {
                return Ok(handle.clone());
            }
            shapes.len()
        };
        if count >= MOST_SHAPES {
            return Err(NoHandle::Row(format!(
                "rows have brought {MOST_SHAPES} different sets of fields already; --columns fixes one"
            )));
        }
        let names = names(&self.table, columns);
        self.has_keys(&names)?;
        let options = self.options.clone();
        let made = self.whole.table_with::<TextRow>(&self.table.name, &names, options).await;
        let handle = made.map_err(|error| match error {
            ConnectError::Server(_) => NoHandle::Server(error.to_string()),
            error => NoHandle::Row(error.to_string()),
        })?;
        let mut shapes = self.shapes.write().unwrap_or_else(PoisonError::into_inner);
        Ok(shapes.entry(columns.to_vec()).or_insert(handle).clone())
    }

    fn has_keys(&self, names: &[String]) -> Result<(), NoHandle> {
        let (key, updates) = match &self.options.conflict {
            Conflict::Error => (&[][..], false),
            Conflict::Ignore(key) => (key.as_slice(), false),
            Conflict::Update(key) => (key.as_slice(), true),
        };
        if let Some(missing) =
            key.iter().chain(&self.options.order).find(|one| !names.contains(one))
        {
            return Err(NoHandle::Row(format!("it has no field for the key's column {missing}")));
        }
        // Sets of columns are written one after the other, which would mix up what came last.
        if (updates || !self.options.order.is_empty()) && names.len() < self.table.writable().len()
        {
            return Err(NoHandle::Row(
                "it has no field for every column, which rows with an order need; --columns names \
                 those that are written"
                    .into(),
            ));
        }
        Ok(())
    }
}

/// Why there is no handle for a row's columns.
#[derive(Debug)]
pub(crate) enum NoHandle {
    /// The row cannot be written.
    Row(String),
    /// It may pass.
    Server(String),
}

fn names(table: &Table, columns: &[u16]) -> Vec<String> {
    columns.iter().map(|at| table.columns[usize::from(*at)].name.clone()).collect()
}
