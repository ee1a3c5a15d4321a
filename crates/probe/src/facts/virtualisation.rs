//! Hypervisors and containers.

use crate::host::read::read_trimmed;

/// What this machine runs in, where it shows: a container runtime, a hypervisor,
/// or both (`docker on KVM`). `None` where nothing shows, which is no proof of bare metal.
pub(crate) fn detect() -> Option<String> {
    match (container(), hypervisor()) {
        (Some(container), Some(hypervisor)) => Some(format!("{container} on {hypervisor}")),
        (one, other) => one.or(other),
    }
}

fn container() -> Option<String> {
    if std::path::Path::new("/.dockerenv").exists() {
        return Some("docker".to_owned());
    }
    if std::path::Path::new("/run/.containerenv").exists() {
        return Some("podman".to_owned());
    }
    // Readable by the owner of process 1 only.
    if let Ok(environment) = std::fs::read("/proc/1/environ") {
        let named = environment
            .split(|byte| *byte == 0)
            .find_map(|variable| variable.strip_prefix(b"container="));
        if let Some(name) = named {
            return Some(String::from_utf8_lossy(name).into_owned());
        }
    }
    let groups = std::fs::read_to_string("/proc/1/cgroup").unwrap_or_default();
    container_in(&groups)
}

fn container_in(groups: &str) -> Option<String> {
    ["kubepods", "docker", "containerd", "lxc", "libpod"]
        .iter()
        .find(|name| groups.contains(*name))
        .map(|name| if *name == "kubepods" { "kubernetes" } else { name }.to_owned())
}

fn hypervisor() -> Option<String> {
    if let Some(kind) = read_trimmed("/sys/hypervisor/type") {
        return Some(kind);
    }
    let vendor = read_trimmed("/sys/class/dmi/id/sys_vendor").unwrap_or_default();
    let product = read_trimmed("/sys/class/dmi/id/product_name").unwrap_or_default();
    if let Some(name) = by_dmi(&vendor, &product) {
        return Some(name.to_owned());
    }
    // The processor says so itself (CPUID, the "hypervisor present" bit).
    let flags = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let virtual_machine = flags
        .lines()
        .find(|line| line.starts_with("flags"))
        .is_some_and(|line| line.split_ascii_whitespace().any(|flag| flag == "hypervisor"));
    virtual_machine.then(|| "a virtual machine".to_owned())
}

fn by_dmi(vendor: &str, product: &str) -> Option<&'static str> {
    const KNOWN: [(&str, &str); 12] = [
        ("Amazon EC2", "Amazon EC2"),
        ("Google", "Google Compute Engine"),
        ("Microsoft Corporation", "Hyper-V"),
        ("QEMU", "KVM"),
        ("KVM", "KVM"),
        ("VMware", "VMware"),
        ("innotek", "VirtualBox"),
        ("Xen", "Xen"),
        ("DigitalOcean", "DigitalOcean"),
        ("Hetzner", "Hetzner"),
        ("OpenStack", "OpenStack"),
        ("Parallels", "Parallels"),
    ];
    let (_, name) =
        KNOWN.iter().find(|(mark, _)| vendor.contains(mark) || product.contains(mark))?;
    // Microsoft builds laptops, Amazon and Google lease bare metal.
    let bare = (*name == "Hyper-V" && !product.contains("Virtual")) || product.contains(".metal");
    (!bare).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_hypervisors_and_containers() {
        assert_eq!(by_dmi("Amazon EC2", "m7i.large"), Some("Amazon EC2"));
        assert_eq!(by_dmi("Amazon EC2", "m7i.metal-24xl"), None);
        assert_eq!(by_dmi("Microsoft Corporation", "Surface Laptop"), None);
        assert_eq!(by_dmi("QEMU", "Standard PC"), Some("KVM"));
        assert_eq!(by_dmi("Dell Inc.", "PowerEdge"), None);
        assert_eq!(container_in("0::/kubepods/pod1"), Some("kubernetes".to_owned()));
        assert_eq!(container_in("0::/init.scope"), None);
    }
}
