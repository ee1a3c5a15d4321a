//! Forms in YAML: Ansible variables, CloudNativePG, Patroni.

use std::fmt::Write;

use super::Exported;
use super::server::settings;
use crate::{DurabilityClass, Entry, Place, Profile, Scope};

/// What CloudNativePG decides itself and refuses in a cluster's parameters
/// (`FixedConfigurationParameters` of its sources).
const FIXED_BY_CLOUD_NATIVE_PG: [&str; 4] =
    ["archive_mode", "listen_addresses", "port", "synchronous_standby_names"];

/// What Patroni decides itself (`CMDLINE_OPTIONS` of its sources).
const FIXED_BY_PATRONI: [&str; 3] = ["listen_addresses", "port", "synchronous_standby_names"];

/// A string in double quotes, which every YAML reader takes as text: no `on` becomes a
/// truth value, no `0.10` a number.
fn text(value: &str) -> String {
    let mut quoted = String::with_capacity(value.len() + 2);
    quoted.push('"');
    for c in value.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            // What YAML would break a line at.
            '\u{85}' | '\u{2028}' | '\u{2029}' | '\u{feff}' => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// Text that Ansible does not take for a template.
fn unsafe_text(value: &str) -> String {
    let template = ["{{", "{%", "{#"].iter().any(|mark| value.contains(mark));
    if template { format!("!unsafe {}", text(value)) } else { text(value) }
}

fn block(out: &mut Exported, title: &str, indent: usize, pairs: &[(String, String)]) {
    if pairs.is_empty() {
        return;
    }
    let pad = " ".repeat(indent);
    let _ = writeln!(out.text, "{pad}{title}:");
    for (name, value) in pairs {
        let _ = writeln!(out.text, "{pad}  {name}: {value}");
    }
}

fn parameters(
    profile: &Profile,
    fixed: &[&str],
    whose: &str,
    out: &mut Exported,
) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    for entry in settings(profile, out) {
        let name = &entry.parameter.name;
        if fixed.contains(&name.as_str()) {
            out.left_out.push(format!("{name} = {}: {whose} decides it itself", entry.value));
        } else {
            pairs.push((name.clone(), text(&entry.value)));
        }
    }
    pairs
}

pub(super) fn cloud_native_pg(profile: &Profile, out: &mut Exported) {
    let pairs = parameters(profile, &FIXED_BY_CLOUD_NATIVE_PG, "CloudNativePG", out);
    if !pairs.is_empty() {
        out.text.push_str("spec:\n  postgresql:\n");
        block(out, "parameters", 4, &pairs);
    }
}

pub(super) fn patroni(profile: &Profile, out: &mut Exported) {
    let pairs = parameters(profile, &FIXED_BY_PATRONI, "Patroni", out);
    if !pairs.is_empty() {
        out.text.push_str("postgresql:\n");
        block(out, "parameters", 2, &pairs);
    }
}

pub(super) fn ansible(profile: &Profile, out: &mut Exported) {
    let set: Vec<(String, String)> = settings(profile, out)
        .into_iter()
        .map(|entry| (text(&entry.parameter.name), unsafe_text(&entry.value)))
        .collect();
    let group = |wanted: &dyn Fn(&Entry) -> Option<String>| -> Vec<(String, String)> {
        let pair = |e: &Entry| Some((text(&wanted(e)?), unsafe_text(&e.bare())));
        profile.entries.iter().filter_map(pair).collect()
    };
    let sysctls =
        group(&|e| (e.parameter.place == Place::Sysctl).then(|| e.parameter.name.clone()));
    let files = group(&|e| match &e.parameter.place {
        Place::File(path) => Some(path.clone()),
        _ => None,
    });
    let limits = group(&|e| match &e.parameter.place {
        Place::Limit(directive) => Some(directive.clone()),
        _ => None,
    });
    let arrays = group(&|e| match &e.parameter.place {
        Place::Md(name) => Some(name.clone()),
        _ => None,
    });
    // What data and WAL do not have apart.
    let both = group(&|e| match &e.parameter.place {
        Place::Array(_) | Place::Mkfs(_) | Place::Mount(_) if e.scope.is_none() => {
            Some(e.parameter.name.replace('.', "_"))
        }
        _ => None,
    });
    block(out, "postgresql_settings", 0, &set);
    block(out, "sysctl_settings", 0, &sysctls);
    block(out, "sysfs_settings", 0, &files);
    block(out, "systemd_limits", 0, &limits);
    block(out, "md_settings", 0, &arrays);
    block(out, "storage", 0, &both);
    super::kernel::tell_facts(profile, out);
    for disk in crate::Disk::ALL {
        let queue = group(&|e| match &e.parameter.place {
            Place::Queue(name)
                if e.scope == Some(Scope::Disk(disk))
                    && e.parameter.class != DurabilityClass::X =>
            {
                Some(name.clone())
            }
            _ => None,
        });
        let title = format!("{}_block_queue", disk.key().to_ascii_lowercase());
        block(out, &title, 0, &queue);
        let storage = group(&|e| match &e.parameter.place {
            Place::Array(_) | Place::Mkfs(_) | Place::Mount(_)
                if e.scope == Some(Scope::Disk(disk)) =>
            {
                Some(e.parameter.name.replace('.', "_"))
            }
            _ => None,
        });
        block(out, &format!("{}_storage", disk.key().to_ascii_lowercase()), 0, &storage);
    }
}
