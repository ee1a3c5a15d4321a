//! Settings that differ from their defaults.

use walwright_record::{Record, Setting};

use crate::format;

/// Settings whose value is not the compiled-in default, each with that default as
/// a person writes it. What the server only derives (`source` is `override`: block
/// sizes, data directory) is left out.
pub(crate) fn changed(record: &Record) -> Vec<(&Setting, String)> {
    let changed = record.settings.iter().filter(|s| s.pending_restart || differs(s));
    changed.map(|s| (s, default(s))).collect()
}

fn differs(setting: &Setting) -> bool {
    let set = !matches!(setting.source.as_str(), "default" | "override");
    set && setting.boot_value.as_deref() != Some(setting.value.as_str())
}

/// The default with its unit, as a person writes it where that is simple.
fn default(setting: &Setting) -> String {
    let Some(boot) = &setting.boot_value else { return "none".to_owned() };
    if boot.is_empty() {
        return "empty".to_owned();
    }
    let (Some(unit), Ok(value)) = (setting.unit.as_deref(), boot.parse::<f64>()) else {
        return boot.clone();
    };
    // Negative and zero values have meanings of their own.
    if value <= 0.0 {
        return boot.clone();
    }
    let scaled = |size: f64| format::bytes(value * size).replace(' ', "");
    match unit {
        "8kB" => scaled(8192.0),
        "kB" => scaled(1024.0),
        "MB" => scaled(1048576.0),
        "B" => scaled(1.0),
        "16MB" => scaled(16.0 * 1048576.0),
        "s" if value % 60.0 == 0.0 => format!("{}min", value / 60.0),
        "ms" if value % 60_000.0 == 0.0 => format!("{}min", value / 60_000.0),
        "ms" if value % 1000.0 == 0.0 => format!("{}s", value / 1000.0),
        unit => format!("{boot}{unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(value: &str, boot: Option<&str>, unit: Option<&str>, source: &str) -> Setting {
        Setting {
            name: "x".into(),
            value: value.into(),
            unit: unit.map(Into::into),
            shown: value.into(),
            boot_value: boot.map(Into::into),
            source: source.into(),
            source_file: None,
            context: "sighup".into(),
            pending_restart: false,
        }
    }

    #[test]
    fn defaults_read_like_postgresql_writes_them() {
        for (boot, unit, text) in [
            ("16384", Some("8kB"), "128MB"),
            ("1024", Some("MB"), "1GB"),
            ("300", Some("s"), "5min"),
            ("200", Some("ms"), "200ms"),
            ("-1", Some("8kB"), "-1"),
            ("on", None, "on"),
            ("", None, "empty"),
        ] {
            assert_eq!(default(&setting("v", Some(boot), unit, "command line")), text);
        }
    }

    #[test]
    fn only_what_someone_changed_differs() {
        assert!(differs(&setting("off", Some("on"), None, "command line")));
        assert!(!differs(&setting("on", Some("on"), None, "configuration file")));
        assert!(!differs(&setting("8192", Some("0"), None, "override")));
        assert!(!differs(&setting("v", None, None, "default")));
    }
}
