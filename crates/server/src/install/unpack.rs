//! Unpacking a tree of binaries, and a receipt that tells later whether it is
//! still whole.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::{Deserialize, Serialize};

use crate::paths::stays_inside;

/// The file in an install's directory that lists what belongs there.
const RECEIPT: &str = "receipt.json";

/// Unpacks `archive` (`.tar.gz`) into `into`. An entry that would land outside
/// `into`, or a link that points outside, fails the whole.
pub(crate) fn unpack_tarball(archive: &Path, into: &Path) -> io::Result<()> {
    let file = io::BufReader::new(fs::File::open(archive)?);
    let mut tar = tar::Archive::new(flate2::bufread::GzDecoder::new(file));
    tar.set_preserve_mtime(true);
    for entry in tar.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        if !stays_inside(Path::new(""), &path) {
            return Err(escape(&path));
        }
        if let Some(target) = entry.link_name()? {
            let base = if entry.header().entry_type().is_hard_link() {
                Path::new("")
            } else {
                path.parent().unwrap_or(Path::new(""))
            };
            if !stays_inside(base, &target) {
                return Err(escape(&path));
            }
        }
        if !entry.unpack_in(into).map_err(with_cause)? {
            return Err(escape(&path));
        }
    }
    Ok(())
}

/// The archive library's errors keep their cause out of their text.
fn with_cause(error: io::Error) -> io::Error {
    let cause = error.get_ref().and_then(std::error::Error::source).map(ToString::to_string);
    match cause {
        Some(cause) => io::Error::new(error.kind(), format!("{error}: {cause}")),
        None => error,
    }
}

fn escape(path: &Path) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("the archive's entry {} points outside of it", path.display()),
    )
}

/// Lets everybody read the tree and enter its directories, whatever the umask
/// was, since another user than the one who fetched may run it.
pub(crate) fn open_to_all(root: &Path) -> io::Result<()> {
    visit(root, &mut |path, meta| {
        let mode = meta.permissions().mode();
        let wanted = if meta.is_dir() || mode & 0o100 != 0 { 0o755 } else { 0o644 };
        if !meta.is_symlink() && mode & 0o7777 != wanted {
            fs::set_permissions(path, PermissionsExt::from_mode(wanted))?;
        }
        Ok(())
    })?;
    fs::set_permissions(root, PermissionsExt::from_mode(0o755))
}

/// What an install's directory held when it was unpacked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Receipt {
    pub(crate) package: String,
    pub(crate) version: String,
    pub(crate) wheel_sha256: String,
    /// The installation prefix (the parent of `bin`), relative to the directory.
    pub(crate) prefix: PathBuf,
    files: Vec<(PathBuf, u64)>,
}

impl Receipt {
    /// Lists the files under `root`.
    pub fn of(
        root: &Path,
        package: &str,
        version: &str,
        wheel_sha256: &str,
        prefix: &Path,
    ) -> io::Result<Self> {
        let mut files = Vec::new();
        visit(root, &mut |path, meta| {
            if meta.is_file()
                && let Ok(relative) = path.strip_prefix(root)
            {
                files.push((relative.to_owned(), meta.len()));
            }
            Ok(())
        })?;
        files.sort();
        Ok(Self {
            package: package.to_owned(),
            version: version.to_owned(),
            wheel_sha256: wheel_sha256.to_owned(),
            prefix: prefix.to_owned(),
            files,
        })
    }

    /// Writes the receipt into `root`.
    pub(crate) fn write(&self, root: &Path) -> io::Result<()> {
        let path = root.join(RECEIPT);
        let file = fs::File::create(&path)?;
        serde_json::to_writer(&file, self)?;
        file.set_permissions(PermissionsExt::from_mode(0o644))?;
        file.sync_all()
    }

    /// Reads the receipt in `root` and checks that every file is there with its
    /// size. The error says what is wrong.
    pub(crate) fn verify(root: &Path) -> Result<Self, String> {
        let text = fs::read(root.join(RECEIPT))
            .map_err(|error| format!("its receipt cannot be read: {error}"))?;
        let receipt: Self = serde_json::from_slice(&text)
            .map_err(|error| format!("its receipt is damaged: {error}"))?;
        for (path, size) in &receipt.files {
            match fs::symlink_metadata(root.join(path)) {
                Ok(meta) if meta.len() == *size => {}
                Ok(meta) => {
                    return Err(format!(
                        "{} has {} bytes instead of {size}",
                        path.display(),
                        meta.len()
                    ));
                }
                Err(error) => return Err(format!("{}: {error}", path.display())),
            }
        }
        Ok(receipt)
    }
}

fn visit(
    dir: &Path,
    each: &mut dyn FnMut(&Path, &fs::Metadata) -> io::Result<()>,
) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let path = entry.path();
        let meta = entry.metadata()?;
        each(&path, &meta)?;
        if meta.is_dir() {
            visit(&path, each)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tarball(dir: &Path, build: impl FnOnce(&mut tar::Builder<Vec<u8>>)) -> PathBuf {
        let mut builder = tar::Builder::new(Vec::new());
        build(&mut builder);
        let bytes = builder.into_inner().expect("tar");
        let path = dir.join("a.tar.gz");
        let mut gz = flate2::write::GzEncoder::new(
            fs::File::create(&path).expect("create"),
            flate2::Compression::fast(),
        );
        io::Write::write_all(&mut gz, &bytes).expect("write");
        gz.finish().expect("finish");
        path
    }

    fn header(kind: tar::EntryType, size: u64) -> tar::Header {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(size);
        header.set_mode(0o755);
        header
    }

    #[test]
    fn links_and_paths_that_leave_the_tree_are_refused() {
        let dir = tempfile::tempdir().expect("temp dir");
        for (name, target) in [("x/link", "../../etc"), ("link", "/etc"), ("x/y", "../../x")] {
            let archive = tarball(dir.path(), |tar| {
                let mut header = header(tar::EntryType::Symlink, 0);
                tar.append_link(&mut header, name, target).expect("append");
            });
            let into = dir.path().join("out");
            fs::create_dir_all(&into).expect("mkdir");
            let error = unpack_tarball(&archive, &into).expect_err(name);
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
            assert_eq!(fs::read_dir(&into).expect("list").count(), 0);
        }
        let archive = tarball(dir.path(), |tar| {
            let mut header = header(tar::EntryType::Regular, 1);
            // The builder refuses "..", an attacker's tar does not.
            header.as_mut_bytes()[..9].copy_from_slice(b"../escape");
            header.set_cksum();
            tar.append(&header, &b"x"[..]).expect("append");
        });
        assert!(unpack_tarball(&archive, &dir.path().join("out")).is_err());
        assert!(!dir.path().join("escape").exists());
    }

    #[test]
    fn a_receipt_notices_what_is_gone_or_cut_short() {
        let dir = tempfile::tempdir().expect("temp dir");
        let root = dir.path().join("install");
        let archive = tarball(dir.path(), |tar| {
            let mut header = header(tar::EntryType::Regular, 5);
            tar.append_data(&mut header, "top/bin/postgres", &b"12345"[..]).expect("append");
            let mut link = self::header(tar::EntryType::Symlink, 0);
            tar.append_link(&mut link, "top/lib/libpq.so", "libpq.so.5").expect("append");
        });
        fs::create_dir(&root).expect("mkdir");
        unpack_tarball(&archive, &root).expect("unpack");
        open_to_all(&root).expect("chmod");
        let receipt = Receipt::of(&root, "p", "1", "00", Path::new("top")).expect("list");
        receipt.write(&root).expect("write");
        assert_eq!(Receipt::verify(&root), Ok(receipt));

        let binary = root.join("top/bin/postgres");
        assert_eq!(fs::metadata(&binary).expect("stat").permissions().mode() & 0o777, 0o755);
        fs::write(&binary, "123").expect("truncate");
        assert!(Receipt::verify(&root).expect_err("cut").contains("3 bytes instead of 5"));
        fs::remove_file(&binary).expect("remove");
        assert!(Receipt::verify(&root).expect_err("gone").contains("postgres"));
        fs::write(root.join(RECEIPT), "{").expect("damage");
        assert!(Receipt::verify(&root).expect_err("damaged").contains("receipt"));
    }
}
