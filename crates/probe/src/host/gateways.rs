//! walwright's gateways on this machine, and where they show metrics.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use procfs::process::{Process, all_processes};

use super::parts::is_gateway;

/// Largest configuration that is read.
const LARGEST: u64 = 1 << 20;

/// A gateway that runs on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayProcess {
    /// Its PID.
    pub pid: u32,
    /// Where it shows metrics, by its command line or by the configuration that this names; `None`
    /// where neither says so, or cannot be read.
    pub metrics: Option<SocketAddr>,
}

/// Those that run now.
pub fn gateways() -> Vec<GatewayProcess> {
    let processes = all_processes().into_iter().flatten().flatten();
    processes.filter_map(|process| gateway(&process)).collect()
}

fn gateway(process: &Process) -> Option<GatewayProcess> {
    let words = process.cmdline().ok()?;
    if !is_gateway(&words.join(" ")) {
        return None;
    }
    let pid = u32::try_from(process.pid).ok()?;
    let typed = option(&words, "--metrics").map(str::to_owned);
    let metrics = typed.or_else(|| {
        let named = process.cwd().ok()?.join(option(&words, "--config")?);
        configured(&named)
    });
    Some(GatewayProcess { pid, metrics: metrics.and_then(|text| reached(&text)) })
}

/// The value of an option, behind it or behind `=`.
fn option<'w>(words: &'w [String], name: &str) -> Option<&'w str> {
    words.iter().enumerate().find_map(|(place, word)| match word.strip_prefix(name)? {
        "" => words.get(place + 1).map(String::as_str),
        rest => rest.strip_prefix('='),
    })
}

/// Address in a gateway's configuration.
fn configured(file: &Path) -> Option<String> {
    if !file.metadata().is_ok_and(|of| of.is_file() && of.len() <= LARGEST) {
        return None;
    }
    let table: toml::Table = std::fs::read_to_string(file).ok()?.parse().ok()?;
    Some(table.get("metrics")?.get("listen")?.as_str()?.to_owned())
}

/// How what listens at an address is reached from this machine.
fn reached(listens: &str) -> Option<SocketAddr> {
    let address: SocketAddr = listens.parse().ok().filter(|of: &SocketAddr| of.port() > 0)?;
    let ip = match address.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    Some(SocketAddr::new(ip, address.port()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_is_read_however_it_is_typed() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let of = |line: &str| option(&words(line), "--metrics").map(str::to_owned);
        assert_eq!(of("w gateway --metrics 127.0.0.1:1 --x").as_deref(), Some("127.0.0.1:1"));
        assert_eq!(of("w gateway --metrics=127.0.0.1:1").as_deref(), Some("127.0.0.1:1"));
        assert_eq!(of("w gateway --metricsx=1"), None);
        assert_eq!(of("w gateway --metrics"), None);
    }

    #[test]
    fn the_address_is_one_that_is_reached() {
        let of = |text: &str| reached(text).map(|address| address.to_string());
        assert_eq!(of("0.0.0.0:9187").as_deref(), Some("127.0.0.1:9187"));
        assert_eq!(of("[::]:9187").as_deref(), Some("[::1]:9187"));
        assert_eq!(of("10.0.0.1:9187").as_deref(), Some("10.0.0.1:9187"));
        assert_eq!(of("127.0.0.1:0"), None);
        assert_eq!(of("db"), None);
    }

    #[test]
    fn a_configuration_names_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("gateway.toml");
        let of = |text: &str| {
            std::fs::write(&file, text).unwrap();
            configured(&file)
        };
        assert_eq!(of("[metrics]\nlisten = \"127.0.0.1:1\"\n").as_deref(), Some("127.0.0.1:1"));
        for without in ["", "[metrics]\n", "metrics = 1", "[metrics]\nlisten = 5", "[[["] {
            assert_eq!(of(without), None, "{without}");
        }
        assert_eq!(configured(dir.path()), None);
    }
}
