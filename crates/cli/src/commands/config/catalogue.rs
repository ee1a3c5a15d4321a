//! `walwright config list` and `explain`.

use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

use serde::Serialize;
use walwright_catalog::{Disk, Parameter, Place, parameter, parameters};
use walwright_config::ServerView;
use walwright_workload::script::closest;

use super::{machine, server};
use crate::args::{ExplainArgs, ListArgs};
use crate::commands::runtime::runtime;
use crate::output::{Output, usage, wrapped};

/// One parameter in a list.
#[derive(Serialize)]
struct Listed<'a> {
    name: &'a str,
    keys: Vec<String>,
    layer: &'a str,
    place: &'a Place,
    unit: Option<&'a str>,
    bounds: Option<&'a [String; 2]>,
    values: &'a [String],
    default: Option<&'a str>,
    apply: &'static str,
    class: String,
    what: &'a str,
    no_effect: Option<&'a str>,
    weaker: &'a std::collections::BTreeMap<String, String>,
    kernel: Option<String>,
    since: Option<u32>,
    until: Option<u32>,
    search: Option<String>,
    source: &'a str,
}

impl<'a> Listed<'a> {
    fn of(parameter: &'a Parameter, major: u32) -> Listed<'a> {
        let search = parameter.search.as_ref().map(|range| {
            let special = match range.special.as_slice() {
                [] => String::new(),
                special => format!(", and {}", special.join(", ")),
            };
            format!("{} to {} ({}){special}", range.from, range.to, range.scale)
        });
        let kernel = (parameter.kernel != Default::default()).then(|| parameter.kernel.to_string());
        Listed {
            name: &parameter.name,
            keys: keys(parameter),
            layer: &parameter.layer,
            place: &parameter.place,
            unit: parameter.unit.as_deref(),
            bounds: parameter.bounds_in(major),
            values: parameter.values_in(major),
            default: parameter.default(major),
            apply: parameter.apply(major).words(),
            class: parameter.class.to_string(),
            what: &parameter.what,
            no_effect: parameter.no_effect.as_deref(),
            weaker: &parameter.weaker,
            kernel,
            since: parameter.since,
            until: parameter.until,
            search,
            source: &parameter.source,
        }
    }
}

fn keys(parameter: &Parameter) -> Vec<String> {
    match parameter.per_disk {
        true => Disk::ALL.iter().map(|disk| parameter.config_key(Some(*disk))).collect(),
        false => vec![parameter.config_key(None)],
    }
}

/// Lists parameters.
pub fn list(args: &ListArgs, output: &Output) -> anyhow::Result<ExitCode> {
    let wanted = |p: &&Parameter| {
        let layer = args.layer.as_ref().map(|layer| layer.to_lowercase());
        layer.is_none_or(|layer| p.layer.to_lowercase().contains(&layer))
            && args.class.is_none_or(|class| p.class == class)
    };
    let found: Vec<&Parameter> = parameters().iter().filter(wanted).collect();
    if found.is_empty() {
        let mut layers: Vec<&str> = parameters().iter().map(|p| p.layer.as_str()).collect();
        layers.dedup();
        return Err(usage(format!("no parameter matches; layers are: {}", layers.join("; "))));
    }
    let listed: Vec<Listed> = found.iter().map(|p| Listed::of(p, 18)).collect();
    output.result(&listed, || text(&found))?;
    Ok(ExitCode::SUCCESS)
}

/// A block a layer: each parameter with its facts, and what it does below.
fn text(found: &[&Parameter]) -> String {
    let mut out = String::new();
    let mut layer = "";
    let widest = found.iter().map(|p| p.name.len()).max().unwrap_or(0);
    for p in found {
        if p.layer != layer {
            let feed = if layer.is_empty() { "" } else { "\n" };
            let _ = writeln!(out, "{feed}{}", p.layer);
            layer = &p.layer;
        }
        let default =
            p.default(18).filter(|text| !text.is_empty()).map_or_else(String::new, |default| {
                let value = p.read(default).map(|value| value.to_string());
                format!(", default {}", value.unwrap_or_else(|_| default.to_owned()))
            });
        let (class, apply) = (p.class, p.apply(18).words());
        let _ = writeln!(out, "  {:widest$}  {class}  {apply}{default}", p.name);
        out.push_str(&wrapped(&p.what, "      "));
    }
    let _ =
        writeln!(out, "\n{} parameters: name, class, what a change takes, default", found.len());
    out
}

/// What a parameter holds here.
#[derive(Serialize)]
struct Here {
    /// Which of several places.
    of: Option<String>,
    /// The value, or why there is none.
    value: String,
}

/// Teaches a parameter.
pub fn explain(args: &ExplainArgs, output: &Output) -> anyhow::Result<ExitCode> {
    let parameter = find(&args.name)?;
    let server = match &args.dsn {
        Some(dsn) => Some(runtime()?.block_on(server(dsn.expose(), None))?.1),
        None => None,
    };
    let major = server.as_ref().map_or(args.pg, |server| server.major);
    let here = here(parameter, server.as_ref());
    let listed = Listed::of(parameter, major);
    let body = serde_json::json!({ "parameter": listed, "here": here });
    output.result(&body, || taught(parameter, major, &here))?;
    Ok(ExitCode::SUCCESS)
}

/// The parameter that a person means: by name, by key, or by the end of its name.
fn find(text: &str) -> anyhow::Result<&'static Parameter> {
    let lower = text.to_ascii_lowercase();
    let by_key = || Parameter::of_key(&text.to_ascii_uppercase()).map(|(parameter, _)| parameter);
    if let Some(parameter) = parameter(text).or_else(by_key) {
        return Ok(parameter);
    }
    let ends = |p: &&Parameter| {
        p.name.strip_suffix(lower.as_str()).is_some_and(|rest| rest.ends_with(['.', '/']))
    };
    let found: Vec<&Parameter> = parameters().iter().filter(ends).collect();
    match found.as_slice() {
        [one] => Ok(one),
        [] => {
            let names = || parameters().iter().map(|p| p.name.as_str());
            let within = |name: &&str| lower.len() > 2 && name.contains(&lower);
            let mut near: Vec<&str> = names().filter(within).take(8).collect();
            if near.is_empty() {
                near.extend(closest(&lower, names()));
            }
            match near.as_slice() {
                [] => Err(usage(format!(
                    "no parameter is called {text}; `walwright config list` lists them"
                ))),
                near => Err(usage(format!(
                    "no parameter is called {text}; similar ones: {}",
                    near.join(", ")
                ))),
            }
        }
        several => {
            let names: Vec<&str> = several.iter().map(|p| p.name.as_str()).collect();
            Err(usage(format!("{text} may be {}", names.join(" or "))))
        }
    }
}

fn here(parameter: &Parameter, server: Option<&ServerView>) -> Vec<Here> {
    if parameter.is_setting() {
        let Some(server) = server else { return Vec::new() };
        let value = match server.setting(&parameter.name) {
            Some(setting) => {
                let place = setting.source_file.as_deref().unwrap_or(&setting.source);
                format!("{} ({place})", setting.shown)
            }
            None => format!("PostgreSQL {} does not show it", server.major),
        };
        return vec![Here { of: None, value }];
    }
    let Some(machine) = machine(Path::new("/"), server, None) else { return Vec::new() };
    let disks: &[Option<Disk>] = match parameter.per_disk {
        true => &[Some(Disk::Data), Some(Disk::Wal)],
        false => &[None],
    };
    let mut found = Vec::new();
    for disk in disks {
        for place in machine.read(parameter, *disk) {
            let of = [disk.map(|disk| disk.to_string()), place.device];
            let of: Vec<String> = of.into_iter().flatten().collect();
            found.push(Here {
                of: (!of.is_empty()).then(|| of.join(" ")),
                value: place.reading.to_string(),
            });
        }
    }
    found
}

fn taught(parameter: &Parameter, major: u32, here: &[Here]) -> String {
    let mut out = format!("{}  [{}]\n\n", parameter.name, parameter.layer);
    out.push_str(&wrapped(&parameter.what, "  "));
    out.push('\n');
    let mut line = |title: &str, text: &str| {
        if !text.is_empty() {
            let block = wrapped(text, "                    ");
            let _ = write!(out, "  {title:<18}{}", block.trim_start_matches(' '));
        }
    };
    line("no effect", parameter.no_effect.as_deref().unwrap_or(""));
    line("where", &place(parameter));
    line("key", &keys(parameter).join(", "));
    line("unit", parameter.unit.as_deref().unwrap_or(""));
    if let Some([low, high]) = parameter.bounds_in(major) {
        let shown = |text: &String| {
            parameter.read(text).map_or_else(|_| text.clone(), |value| value.to_string())
        };
        line("range", &format!("{} to {}", shown(low), shown(high)));
    }
    line("values", &parameter.values_in(major).join(", "));
    let listed = Listed::of(parameter, major);
    let default = listed.default.unwrap_or_default();
    let default = parameter.read(default).map_or(default.to_owned(), |value| value.to_string());
    line("default", if listed.default.is_some() { &default } else { "" });
    line("worth searching", listed.search.as_deref().unwrap_or(""));
    line("a change takes", listed.apply);
    line("durability", &format!("class {}: {}", parameter.class, parameter.class.words()));
    for (value, loss) in &parameter.weaker {
        line(&format!("  {value}"), loss);
    }
    match (parameter.since, parameter.until) {
        (Some(since), _) => line("versions", &format!("PostgreSQL {since} and later")),
        (_, Some(until)) => line("versions", &format!("PostgreSQL up to {until}")),
        _ => {}
    }
    line("kernel", listed.kernel.as_deref().unwrap_or(""));
    for here in here {
        let title = match &here.of {
            Some(of) => format!("here, {of}"),
            None => "here".to_owned(),
        };
        line(&title, &here.value);
    }
    line("source", &parameter.source);
    out
}

fn place(parameter: &Parameter) -> String {
    match &parameter.place {
        Place::Setting => "a setting of the server".to_owned(),
        Place::Cluster(option) => format!("chosen when the cluster is made ({option})"),
        Place::Sysctl => format!("/proc/sys/{} (sysctl)", parameter.name.replace('.', "/")),
        Place::File(path) => path.clone(),
        Place::Queue(name) => format!("/sys/block/{{device}}/queue/{name}"),
        Place::Md(name) => format!("/sys/block/{{device}}/md/{name}"),
        Place::Limit(directive) => format!("{directive} in the server's systemd unit"),
        Place::Array(option) => format!("mdadm --create ({option})"),
        Place::Mkfs(option) => format!("mkfs ({option})"),
        Place::Mount(option) => format!("mount ({option})"),
        Place::Table(option) => format!("storage parameter {option} of a table"),
        Place::Index(option) => format!("storage parameter {option} of an index"),
        Place::Ddl(statement) => format!("the schema ({statement})"),
        Place::Load(option) => format!("the load ({option})"),
        Place::StorageProbe(option) => format!("the storage probe ({option})"),
        Place::Machine => "what the machine is".to_owned(),
    }
}
