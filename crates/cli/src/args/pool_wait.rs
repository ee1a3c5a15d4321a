//! `--pool-wait`: where an application tells how long requests wait for its pool.

use walwright_http::PageAddress;

/// A metric of an application.
#[derive(Debug, Clone)]
pub struct PoolWait {
    /// The address of the page; `/metrics` of the application where not given.
    pub metrics: Option<PageAddress>,
    /// Its name.
    pub name: String,
}

/// Of an application that is asked: its address is known.
pub fn pool_wait(text: &str) -> Result<PoolWait, String> {
    let (metrics, name) = match text.rsplit_once('#') {
        Some((url, name)) => {
            let address = url.parse();
            let wrong = |_| format!("'{text}': metrics are read from http://HOST:PORT/PATH");
            (Some(address.map_err(wrong)?), name)
        }
        None => (None, text),
    };
    if name.is_empty() || name.contains(['/', '{', ' ']) {
        return Err(format!("'{text}' names no metric: write NAME or http://HOST:PORT/PATH#NAME"));
    }
    Ok(PoolWait { metrics, name: name.to_owned() })
}

/// Of an application of which nothing else is known.
pub fn pool_wait_at_address(text: &str) -> Result<PoolWait, String> {
    let of = pool_wait(text)?;
    match of.metrics {
        Some(_) => Ok(of),
        None => Err(format!("'{text}' has no address: write http://HOST:PORT/metrics#{text}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_has_a_name_and_where_nothing_else_tells_it_an_address() {
        let of = pool_wait("http://127.0.0.1:80/metrics#waits_seconds").unwrap();
        assert_eq!(of.name, "waits_seconds");
        assert!(of.metrics.is_some());
        assert!(pool_wait("waits_seconds").unwrap().metrics.is_none());
        assert!(
            pool_wait_at_address("waits_seconds").unwrap_err().contains("/metrics#waits_seconds")
        );
        for wrong in ["http://127.0.0.1:80/metrics", "http://127.0.0.1:80/metrics#", "ftp://x#y"] {
            assert!(pool_wait_at_address(wrong).is_err(), "{wrong}");
        }
    }
}
