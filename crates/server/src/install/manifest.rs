//! Which builds exist, at which version, with which hash.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

use crate::version::Major;

/// The pinned builds.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Manifest {
    release: Vec<Release>,
    fallback: Release,
}

/// One build of one major version.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Release {
    pub(crate) major: u32,
    pub(crate) package: String,
    pub(crate) version: String,
    pub(crate) layout: Layout,
    #[serde(default)]
    pub(crate) prefix: PathBuf,
    platform: String,
    sha256: BTreeMap<String, String>,
}

/// What a wheel holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Layout {
    /// One `.tar.gz` with the whole tree under a single top directory.
    Tarball,
    /// The tree itself, under the release's prefix.
    Tree,
}

impl Manifest {
    /// The manifest compiled into the program.
    pub(crate) fn built_in() -> Self {
        toml::from_str(include_str!("manifest.toml"))
            .expect("the manifest is part of the program and a test reads it")
    }

    /// The preferred build of a major version.
    pub(crate) fn release(&self, major: Major) -> &Release {
        self.release
            .iter()
            .find(|release| release.major == major.number())
            .expect("the manifest has every major version and a test says so")
    }

    /// The build for systems that lack libraries, where it has that major.
    pub(crate) fn fallback(&self, major: Major) -> Option<&Release> {
        (self.fallback.major == major.number()).then_some(&self.fallback)
    }
}

impl Release {
    /// The hash of the wheel for an architecture, in hex.
    pub(crate) fn sha256(&self, arch: &str) -> Option<&str> {
        self.sha256.get(arch).map(String::as_str)
    }

    /// The wheel's platform tag: `manylinux_2_17_x86_64`.
    pub(crate) fn platform_tag(&self, arch: &str) -> String {
        format!("{}_{arch}", self.platform)
    }

    /// The name of the directory this build is unpacked to.
    pub(crate) fn directory_name(&self, arch: &str) -> String {
        format!("{}-{}-{arch}", self.package, self.version)
    }

    /// Package and version as people write them.
    pub(crate) fn title(&self) -> String {
        format!("{} {}", self.package, self.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_major_has_a_pinned_build_for_both_architectures() {
        let manifest = Manifest::built_in();
        let all = Major::ALL
            .map(|major| manifest.release(major))
            .into_iter()
            .chain(manifest.fallback(Major::V18));
        for release in all {
            assert!(release.version.starts_with(&format!("{}.", release.major)));
            for arch in ["x86_64", "aarch64"] {
                let hash = release.sha256(arch).expect("pinned");
                assert_eq!(hash.len(), 64, "{}", release.title());
                assert!(hash.bytes().all(|b| b.is_ascii_hexdigit()));
            }
            assert_eq!(release.sha256("riscv64"), None);
        }
        assert!(manifest.fallback(Major::V17).is_none());
    }
}
