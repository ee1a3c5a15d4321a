//! The picture of a report in the README, made from a real report.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use clap::Parser;

/// Pictures a report that `walwright run` or `walwright report` wrote, as a PNG, by headless
/// Chromium.
///
/// For the README: `report-picture --hide findings ~/.local/share/walwright/reports/RUN.html`
#[derive(Parser)]
struct Cli {
    /// The report, an HTML file.
    report: PathBuf,
    /// Where to write the picture.
    #[arg(short, long, default_value = "docs/report.png")]
    output: PathBuf,
    /// Section to leave out, by its id in the page, so that what comes after it is in the
    /// picture. May be repeated.
    #[arg(long, value_name = "ID")]
    hide: Vec<String>,
    /// Width of the picture in pixels.
    #[arg(long, default_value_t = 1080)]
    width: u32,
    /// Its height, from the top of the report.
    #[arg(long, default_value_t = 1790)]
    height: u32,
}

/// Names under which browsers that take Chromium's options are installed.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];
/// What a README that loads quickly bears.
const LARGEST: u64 = 400_000;

fn main() -> anyhow::Result<()> {
    let cli = Cli::parse();
    let report = std::fs::read_to_string(&cli.report)
        .with_context(|| format!("{} cannot be read", cli.report.display()))?;
    let page = without(&report, &cli.hide)?;
    let Some(browser) = browser() else {
        bail!("no Chromium found; install it, for example: apt-get install chromium");
    };
    if let Some(directory) = cli.output.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let output = std::path::absolute(&cli.output)?;
    let size = picture(&browser, &page, &output, (cli.width, cli.height))?;
    if size > LARGEST {
        bail!("{} has {size} bytes, above {LARGEST}; lower --height", output.display());
    }
    println!("{}: {size} bytes", output.display());
    Ok(())
}

/// The first browser on the path.
fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .flat_map(|directory| BROWSERS.map(|name| directory.join(name)))
        .find(|program| program.is_file())
}

/// The page with the sections of these ids hidden.
fn without(page: &str, hidden: &[String]) -> anyhow::Result<String> {
    let Some(end) = page.find("</head>") else { bail!("this is no report: it has no </head>") };
    let mut style = String::from("<style>");
    for id in hidden {
        if !page.contains(&format!("id=\"{id}\"")) {
            bail!("the report has no section '{id}'");
        }
        style.push_str(&format!("#{id}{{display:none}}"));
    }
    style.push_str("</style>");
    Ok(format!("{}{style}{}", &page[..end], &page[end..]))
}

/// Has `browser` picture `page` into `output`; the size of the picture in bytes.
fn picture(
    browser: &Path,
    page: &str,
    output: &Path,
    (width, height): (u32, u32),
) -> anyhow::Result<u64> {
    // A browser that fails exits with 0 all the same, so no earlier picture may pass for its own.
    if output.exists() {
        std::fs::remove_file(output)?;
    }
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("report.html");
    std::fs::write(&file, page)?;
    let ran = Command::new(browser)
        .args(["--headless", "--disable-gpu", "--hide-scrollbars"])
        // Its sandbox does not work for root; the page is our own and needs no network.
        .arg("--no-sandbox")
        .arg(format!("--user-data-dir={}", directory.path().join("profile").display()))
        .arg(format!("--window-size={width},{height}"))
        .arg(format!("--screenshot={}", output.display()))
        .arg(format!("file://{}", file.display()))
        .stdout(Stdio::null())
        .output()
        .with_context(|| format!("{} could not be started", browser.display()))?;
    let Ok(written) = std::fs::metadata(output) else {
        bail!(
            "{} made no picture:\n{}",
            browser.display(),
            String::from_utf8_lossy(&ran.stderr).trim_end()
        );
    };
    Ok(written.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_hidden_and_no_other_can_be() {
        let page = "<html><head></head><body><section id=\"findings\"></section></body></html>";
        let hidden = without(page, &["findings".to_owned()]).expect("the section is there");
        assert!(hidden.contains("<style>#findings{display:none}</style></head>"), "{hidden}");
        assert!(without(page, &["wal".to_owned()]).is_err());
        assert!(without("no page", &[]).is_err());
    }

    #[test]
    fn what_made_no_picture_is_an_error_though_it_exits_with_0() {
        let directory = tempfile::tempdir().expect("a directory");
        let output = directory.path().join("picture.png");
        std::fs::write(&output, "an earlier picture").expect("written");
        let error = picture(Path::new("/bin/true"), "<html></html>", &output, (10, 10));
        assert!(error.is_err() && !output.exists());
    }
}
