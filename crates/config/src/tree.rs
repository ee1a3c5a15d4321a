//! Trees of `/proc` and `/sys` for tests: a machine as files in a directory.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A tree, removed when dropped.
pub(crate) struct Tree {
    directory: TempDir,
}

impl Tree {
    pub(crate) fn new() -> Tree {
        let directory = tempfile::tempdir().expect("a directory");
        for part in ["sys/dev/block", "sys/block", "proc/self"] {
            fs::create_dir_all(directory.path().join(part)).expect("mkdir");
        }
        Tree { directory }
    }

    pub(crate) fn root(&self) -> &Path {
        self.directory.path()
    }

    /// Writes a file and gives its path.
    pub(crate) fn file(&self, path: &str, text: &str) -> PathBuf {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().expect("not the root")).expect("mkdir");
        fs::write(&path, text).expect("write");
        path
    }

    /// A disk of 50 GB with a queue.
    pub(crate) fn disk(&self, name: &str, number: &str) {
        let at = format!("sys/block/{name}");
        self.file(&format!("{at}/size"), "104857600\n");
        self.file(&format!("{at}/queue/scheduler"), "none [mq-deadline]\n");
        self.file(&format!("{at}/queue/read_ahead_kb"), "128\n");
        self.file(&format!("{at}/queue/nr_requests"), "256\n");
        self.file(&format!("{at}/queue/write_cache"), "write back\n");
        symlink(format!("../../block/{name}"), self.root().join("sys/dev/block").join(number))
            .expect("symlink");
    }

    /// An array of md of so many disks, with number 9:N of its name.
    pub(crate) fn array(&self, name: &str, level: &str, members: usize, chunk: u64) {
        let number = name.strip_prefix("md").expect("an array's name");
        self.disk(name, &format!("9:{number}"));
        let at = format!("sys/block/{name}");
        self.file(&format!("{at}/queue/scheduler"), "none\n");
        self.file(&format!("{at}/md/level"), &format!("{level}\n"));
        self.file(&format!("{at}/md/raid_disks"), &format!("{members}\n"));
        self.file(&format!("{at}/md/chunk_size"), &format!("{chunk}\n"));
        self.file(&format!("{at}/md/bitmap/location"), "+8\n");
        fs::create_dir_all(self.root().join(&at).join("slaves")).expect("mkdir");
        for member in 0..members {
            let disk = format!("{name}m{member}");
            self.disk(&disk, &format!("259:{number}{member}"));
            let link = self.root().join(&at).join("slaves").join(&disk);
            symlink(format!("../../{disk}"), link).expect("symlink");
        }
    }
}
