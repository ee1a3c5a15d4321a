//! The machine an entry speaks of.

use walwright_record::journal::Machine;

/// This machine, as far as it can be seen.
pub fn this_machine() -> Machine {
    let facts = crate::host_facts(None, None);
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    Machine {
        name: name.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()),
        cpu_model: facts.cpu_model,
        processors: facts.processors,
        memory_bytes: facts.memory_bytes,
        kernel: facts.kernel,
    }
}
