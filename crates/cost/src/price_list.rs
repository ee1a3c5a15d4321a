//! The price file.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Hours of a month, as bills count them: 8,760 a year.
pub(crate) const HOURS: f64 = 730.0;

/// Prices of the user's, with where they are from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceList {
    /// FOCUS `BillingCurrency`: `USD`.
    #[serde(rename = "BillingCurrency")]
    pub currency: String,
    /// When the prices were read.
    pub date: String,
    /// Where they were read.
    pub source: String,
    /// What one server needs.
    #[serde(rename = "price")]
    pub prices: Vec<Price>,
}

/// One price.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// What is charged.
    pub charge: Charge,
    /// FOCUS `SkuId`: the instance's type, or a name for the reader.
    #[serde(rename = "SkuId", default, skip_serializing_if = "Option::is_none")]
    pub sku: Option<String>,
    /// FOCUS `ListUnitPrice`, in the file's currency.
    #[serde(rename = "ListUnitPrice")]
    pub unit_price: f64,
    /// FOCUS `PricingUnit`, which the charge demands.
    #[serde(rename = "PricingUnit")]
    pub unit: String,
    /// Processors of an instance, to be held against those of the runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processors: Option<u32>,
    /// Memory of an instance in gigabytes, to be held against that of the runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_gb: Option<f64>,
    /// FOCUS `PricingQuantity`: how many units the server has.
    #[serde(rename = "PricingQuantity", default)]
    pub quantity: Quantity,
}

/// What is charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Charge {
    /// The machine, by the hour.
    Instance,
    /// Bytes kept, by the month.
    Storage,
    /// Operations a second that are provisioned, by the month.
    Iops,
    /// Megabytes a second that are provisioned, by the month.
    Throughput,
    /// Bytes that leave, by the gigabyte.
    Transfer,
}

impl Charge {
    /// The unit that its prices are for.
    pub fn unit(self) -> &'static str {
        match self {
            Charge::Instance => "Hours",
            Charge::Storage => "GB-Months",
            Charge::Iops => "IOPS-Months",
            Charge::Throughput => "MBps-Months",
            Charge::Transfer => "GB",
        }
    }

    /// As it is written in the file.
    pub fn name(self) -> &'static str {
        match self {
            Charge::Instance => "instance",
            Charge::Storage => "storage",
            Charge::Iops => "iops",
            Charge::Throughput => "throughput",
            Charge::Transfer => "transfer",
        }
    }
}

/// How many units a server has.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Quantity {
    /// So many; in a month where the charge is for transfer.
    Units(f64),
    /// As much as the transactions write WAL.
    Of(Measured),
}

/// What a run measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Measured {
    /// WAL.
    Wal,
}

impl Default for Quantity {
    fn default() -> Self {
        Quantity::Units(1.0)
    }
}

/// What is wrong with a price file.
#[derive(Debug, Error)]
pub enum PriceError {
    /// It is not what a price file is.
    #[error("{0}")]
    Form(#[from] toml::de::Error),
    /// A price cannot be meant like that.
    #[error("price {number} ({charge}): {reason}")]
    Price {
        /// From 1, in the file's order.
        number: usize,
        /// What it is of.
        charge: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// No machine has a price.
    #[error("it has no price with charge = \"instance\"")]
    NoInstance,
    /// The instance that was asked for is not in the file.
    #[error("it has no instance {asked}; it has {there}")]
    NoSuchInstance {
        /// What was asked for.
        asked: String,
        /// What there is.
        there: String,
    },
    /// Several instances, and none was asked for.
    #[error("it has several instances ({0}): name one with --instance")]
    SeveralInstances(String),
}

impl PriceList {
    /// Reads a price file.
    ///
    /// # Errors
    /// When it is not TOML of this form, or a price or quantity is no figure of its charge.
    pub fn read(text: &str) -> Result<PriceList, PriceError> {
        let list: PriceList = toml::from_str(text)?;
        for (at, price) in list.prices.iter().enumerate() {
            price.check().map_err(|reason| PriceError::Price {
                number: at + 1,
                charge: price.charge.name(),
                reason,
            })?;
        }
        if !list.prices.iter().any(|price| price.charge == Charge::Instance) {
            return Err(PriceError::NoInstance);
        }
        Ok(list)
    }

    /// The prices of one server: the instance that is asked for, or the only one, and all else.
    ///
    /// # Errors
    /// When it is not in the file, or there are several and none is asked for.
    pub fn of_server(&self, instance: Option<&str>) -> Result<Vec<&Price>, PriceError> {
        let (instances, rest): (Vec<&Price>, Vec<&Price>) =
            self.prices.iter().partition(|price| price.charge == Charge::Instance);
        let there = || instances.iter().map(|price| price.name()).collect::<Vec<_>>().join(", ");
        let chosen = match (instance, instances.as_slice()) {
            (None, [only]) => *only,
            (None, _) => return Err(PriceError::SeveralInstances(there())),
            (Some(asked), all) => {
                let found = all.iter().find(|price| price.name() == asked);
                let missing =
                    || PriceError::NoSuchInstance { asked: asked.to_owned(), there: there() };
                found.copied().ok_or_else(missing)?
            }
        };
        Ok(std::iter::once(chosen).chain(rest).collect())
    }
}

impl Price {
    /// The SKU, or what is charged.
    pub fn name(&self) -> &str {
        self.sku.as_deref().unwrap_or(self.charge.name())
    }

    /// What a month of it costs where it is charged by the hour.
    pub(crate) fn month(&self) -> f64 {
        let units = match self.quantity {
            Quantity::Units(units) => units,
            Quantity::Of(_) => 1.0,
        };
        units * HOURS * self.unit_price
    }

    fn check(&self) -> Result<(), String> {
        if self.unit != self.charge.unit() {
            return Err(format!("PricingUnit is \"{}\", not {:?}", self.charge.unit(), self.unit));
        }
        if !(self.unit_price.is_finite() && self.unit_price >= 0.0) {
            return Err(format!("ListUnitPrice {} is no price", self.unit_price));
        }
        match self.quantity {
            Quantity::Of(_) if self.charge != Charge::Transfer => {
                Err("only transfer can be of as much as was measured".to_owned())
            }
            Quantity::Units(units) if !(units.is_finite() && units >= 0.0) => {
                Err(format!("PricingQuantity {units} is no quantity"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_example_is_read_and_names_one_of_its_instances() {
        let list = PriceList::read(crate::EXAMPLE).expect("the example");
        let server = list.of_server(Some("db.example.xlarge")).expect("an instance");
        assert_eq!(server.len(), 5);
        assert_eq!(server[0].unit_price, 0.75);
        assert_eq!(server[4].quantity, Quantity::Of(Measured::Wal));
        let none = list.of_server(None).expect_err("two instances").to_string();
        assert!(none.contains("db.example.4xlarge, db.example.xlarge"), "{none}");
        let other = list.of_server(Some("tiny")).expect_err("not there").to_string();
        assert!(other.contains("no instance tiny"), "{other}");
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_its_place() {
        let with = |from: &str, to: &str| {
            let text = crate::EXAMPLE.replacen(from, to, 1);
            PriceList::read(&text).expect_err("wrong").to_string()
        };
        let said = with("\"GB-Months\"\nPricingQuantity", "\"GB\"\nPricingQuantity");
        assert!(said.starts_with("price 3 (storage): PricingUnit is"), "{said}");
        let said = with("ListUnitPrice = 3.00", "ListUnitPrice = -3.00");
        assert!(said.contains("-3 is no price"), "{said}");
        let said = with("PricingQuantity = 500", "PricingQuantity = \"wal\"");
        assert!(said.contains("only transfer"), "{said}");
        let said = with("ListUnitPrice = 3.00", "UnitPrice = 3.00");
        assert!(said.contains("UnitPrice"), "{said}");
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd_to_be_answered(text in ".{0,400}") {
            _ = PriceList::read(&text);
        }
    }
}
