//! The few things asked of the kernel that the standard library does not offer.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A file descriptor that is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ready {
    /// The number it was registered with.
    pub(crate) token: u64,
    /// Whether the other side has closed. That is told once: what can still be
    /// read must be read to its end.
    pub(crate) closed: bool,
}

/// Tells which file descriptors are ready.
pub(crate) struct Poller {
    epoll: OwnedFd,
    events: Vec<libc::epoll_event>,
}

/// Whether the kernel knows `epoll_pwait2` (Linux 5.11).
static NANOSECOND_WAIT: AtomicBool = AtomicBool::new(true);

/// Events taken from the kernel at once.
const EVENTS: usize = 256;

impl Poller {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: no pointers are involved; the descriptor returned is owned by nobody else.
        let epoll =
            unsafe { OwnedFd::from_raw_fd(checked(libc::epoll_create1(libc::EPOLL_CLOEXEC))?) };
        Ok(Poller { epoll, events: Vec::with_capacity(EVENTS) })
    }

    /// Reports `token` when `fd` becomes readable, and writable if asked.
    ///
    /// Edge-triggered, so that a socket that was read to its end is not looked
    /// at again by the next wait.
    pub(crate) fn add(&self, fd: RawFd, token: u64, writable: bool) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, token, writable)
    }

    /// Changes whether a registered `fd` is also watched for writing.
    pub(crate) fn change(&self, fd: RawFd, token: u64, writable: bool) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, token, writable)
    }

    fn control(&self, what: libc::c_int, fd: RawFd, token: u64, writable: bool) -> io::Result<()> {
        let mut flags = libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLET;
        if writable {
            flags |= libc::EPOLLOUT;
        }
        let mut event = libc::epoll_event { events: flags as u32, u64: token };
        // SAFETY: `event` is a valid epoll_event for the length of the call.
        checked(unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), what, fd, &mut event) })?;
        Ok(())
    }

    /// Waits until something is ready or the time is over; what is ready is then
    /// in `ready`.
    pub(crate) fn wait(
        &mut self,
        limit: Option<Duration>,
        ready: &mut Vec<Ready>,
    ) -> io::Result<()> {
        ready.clear();
        let count = match self.wait_kernel(limit) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            Err(error) => return Err(error),
        };
        // SAFETY: the kernel wrote the first `count` events, and `count` is at
        // most the capacity it was given.
        unsafe { self.events.set_len(count) };
        const CLOSED: libc::c_int = libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR;
        ready.extend(
            self.events
                .iter()
                .map(|event| Ready { token: event.u64, closed: event.events & CLOSED as u32 != 0 }),
        );
        Ok(())
    }

    fn wait_kernel(&mut self, limit: Option<Duration>) -> io::Result<usize> {
        let epoll = self.epoll.as_raw_fd();
        let buffer = self.events.as_mut_ptr();
        let room = self.events.capacity() as libc::c_int;
        let Some(limit) = limit else {
            // SAFETY: `buffer` has room for `room` events.
            return checked(unsafe { libc::epoll_wait(epoll, buffer, room, -1) })
                .map(|count| count as usize);
        };
        if limit.is_zero() {
            // SAFETY: as above.
            return checked(unsafe { libc::epoll_wait(epoll, buffer, room, 0) })
                .map(|count| count as usize);
        }
        let limit = timespec(limit);
        if NANOSECOND_WAIT.load(Ordering::Relaxed) {
            // By number, since the C library may be older than the kernel.
            // SAFETY: `buffer` has room for `room` events, `limit` lives
            // through the call, no signal mask is given.
            let count = unsafe {
                libc::syscall(
                    libc::SYS_epoll_pwait2,
                    epoll,
                    buffer,
                    room,
                    &raw const limit,
                    std::ptr::null::<libc::sigset_t>(),
                    0_usize,
                )
            };
            if count >= 0 {
                return Ok(count as usize);
            }
            let error = io::Error::last_os_error();
            if !matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) {
                return Err(error);
            }
            NANOSECOND_WAIT.store(false, Ordering::Relaxed);
        }
        // An older kernel: an epoll descriptor can itself be polled, and ppoll
        // takes nanoseconds.
        let mut poll = libc::pollfd { fd: epoll, events: libc::POLLIN, revents: 0 };
        // SAFETY: one pollfd, a timespec that lives through the call, no mask.
        checked(unsafe { libc::ppoll(&mut poll, 1, &limit, std::ptr::null()) })?;
        // SAFETY: as above.
        checked(unsafe { libc::epoll_wait(epoll, buffer, room, 0) }).map(|count| count as usize)
    }
}

fn timespec(of: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: libc::time_t::try_from(of.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(of.subsec_nanos() as i32),
    }
}

/// Wakes a thread that waits in a [`Poller`].
pub(crate) struct Waker(OwnedFd);

impl Waker {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: no pointers; the descriptor returned is owned by nobody else.
        let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        // SAFETY: `checked` let only a valid descriptor through.
        Ok(Waker(unsafe { OwnedFd::from_raw_fd(checked(fd)?) }))
    }

    pub(crate) fn wake(&self) {
        let one = 1_u64;
        // A full counter wakes as well, so the result does not matter.
        // SAFETY: eight readable bytes are passed.
        unsafe { libc::write(self.0.as_raw_fd(), (&raw const one).cast(), 8) };
    }

    /// Takes back what `wake` did.
    pub(crate) fn clear(&self) {
        let mut count = 0_u64;
        // SAFETY: eight writable bytes are passed.
        unsafe { libc::read(self.0.as_raw_fd(), (&raw mut count).cast(), 8) };
    }
}

impl AsRawFd for Waker {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Makes a [`Poller`] return at a time set long before, which costs nothing at
/// each wait; a limit of the wait costs the kernel a timer every time.
pub(crate) struct Alarm(OwnedFd);

impl Alarm {
    pub(crate) fn new() -> io::Result<Self> {
        let flags = libc::TFD_NONBLOCK | libc::TFD_CLOEXEC;
        // SAFETY: no pointers; the descriptor returned is owned by nobody else.
        let fd = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) };
        // SAFETY: `checked` let only a valid descriptor through.
        Ok(Alarm(unsafe { OwnedFd::from_raw_fd(checked(fd)?) }))
    }

    /// Goes off once, after `delay`; a setting before that is forgotten.
    pub(crate) fn set(&self, delay: Duration) -> io::Result<()> {
        let never = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // Zero would switch it off.
        let delay = timespec(delay.max(Duration::from_nanos(1)));
        let setting = libc::itimerspec { it_interval: never, it_value: delay };
        // SAFETY: `setting` lives through the call, the old one is not asked for.
        checked(unsafe {
            libc::timerfd_settime(self.0.as_raw_fd(), 0, &setting, std::ptr::null_mut())
        })?;
        Ok(())
    }
}

impl AsRawFd for Alarm {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// CPU time of the calling thread so far.
pub(crate) fn thread_cpu() -> Duration {
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: the kernel fills the timespec; this clock always exists on Linux,
    // and the value is read only on success.
    unsafe {
        if libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, time.as_mut_ptr()) != 0 {
            return Duration::ZERO;
        }
        let time = time.assume_init();
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }
}

/// Where the kernel tells of the calling thread.
pub(crate) fn this_task() -> Option<PathBuf> {
    let task = std::fs::read_link("/proc/thread-self").ok()?;
    Some(Path::new("/proc").join(task))
}

/// CPU time so far of a thread of which the kernel tells here.
pub(crate) fn task_cpu(task: &Path) -> Option<Duration> {
    let text = std::fs::read_to_string(task.join("schedstat")).ok()?;
    text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

/// CPU time of the calling thread so far, in user and in kernel mode.
pub(crate) fn thread_cpu_split() -> (Duration, Duration) {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: rusage is plain numbers, for which all zeros are valid, and the
    // kernel overwrites them.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init()
    };
    let duration =
        |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
    (duration(usage.ru_utime), duration(usage.ru_stime))
}

/// Lets timers of the calling thread fire when they are due: the kernel may
/// otherwise be 50 µs late to save wake-ups.
pub(crate) fn precise_timers() {
    // SAFETY: plain numbers; a refusal leaves the default.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64, 0_u64, 0_u64, 0_u64) };
}

/// Files a process needs beside its connections.
const OTHER_FILES: u64 = 128;

/// Lets this process open so many connections at once: the soft limit on open
/// files is raised as far as need be.
///
/// # Errors
/// With the number of connections possible, when the hard limit is lower.
pub(crate) fn allow_connections(count: u32) -> Result<(), u64> {
    let needed = u64::from(count) + OTHER_FILES;
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is valid for the length of the call.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } != 0 {
        // Then connecting will tell.
        return Ok(());
    }
    if limit.rlim_cur >= needed {
        return Ok(());
    }
    if limit.rlim_max < needed {
        return Err(limit.rlim_max.saturating_sub(OTHER_FILES));
    }
    limit.rlim_cur = needed;
    // SAFETY: `limit` is valid for the length of the call; a refusal leaves what was.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) };
    Ok(())
}

/// Whether the calling thread gives way: as SCHED_BATCH it takes its turn when
/// it is woken, instead of interrupting whoever runs (`man 7 sched`).
pub(crate) fn give_way(yes: bool) {
    let policy = if yes { libc::SCHED_BATCH } else { libc::SCHED_OTHER };
    // SAFETY: a zeroed sched_param is the priority 0 that both policies ask for.
    let parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: `parameters` lives through the call; a refusal leaves what was.
    unsafe { libc::sched_setscheduler(0, policy, &parameters) };
}

/// How long the calling thread was ready to run and did not, and how often it
/// ran, so far; `None` where the kernel does not tell.
pub(crate) fn thread_waits() -> Option<(Duration, u64)> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let mut numbers = text.split_ascii_whitespace().skip(1).map(str::parse::<u64>);
    let waited = Duration::from_nanos(numbers.next()?.ok()?);
    Some((waited, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn tokens(poller: &mut Poller, limit: Duration) -> Vec<u64> {
        let mut ready = Vec::new();
        poller.wait(Some(limit), &mut ready).unwrap();
        ready.iter().map(|ready| ready.token).collect()
    }

    #[test]
    fn a_waker_is_reported_once_until_it_wakes_again() {
        let mut poller = Poller::new().unwrap();
        let waker = Waker::new().unwrap();
        poller.add(waker.as_raw_fd(), 7, false).unwrap();
        let minute = Duration::from_secs(60);
        assert_eq!(tokens(&mut poller, Duration::ZERO), [0; 0]);
        waker.wake();
        assert_eq!(tokens(&mut poller, minute), [7]);
        waker.clear();
        assert_eq!(tokens(&mut poller, Duration::from_nanos(1)), [0; 0]);
        waker.wake();
        assert_eq!(tokens(&mut poller, minute), [7]);
    }

    #[test]
    fn closing_is_told_together_with_the_last_bytes() {
        let (mut here, there) = UnixStream::pair().unwrap();
        let mut poller = Poller::new().unwrap();
        poller.add(there.as_raw_fd(), 1, false).unwrap();
        let mut ready = Vec::new();
        here.write_all(b"last").unwrap();
        poller.wait(None, &mut ready).unwrap();
        assert_eq!(ready, [Ready { token: 1, closed: false }]);
        here.write_all(b" words").unwrap();
        drop(here);
        poller.wait(None, &mut ready).unwrap();
        assert_eq!(ready, [Ready { token: 1, closed: true }]);
    }

    #[test]
    fn an_alarm_goes_off_and_can_be_set_anew() {
        let mut poller = Poller::new().unwrap();
        let alarm = Alarm::new().unwrap();
        poller.add(alarm.as_raw_fd(), 3, false).unwrap();
        for _ in 0..2 {
            alarm.set(Duration::ZERO).unwrap();
            assert_eq!(tokens(&mut poller, Duration::from_secs(60)), [3]);
        }
        alarm.set(Duration::from_secs(60)).unwrap();
        assert_eq!(tokens(&mut poller, Duration::ZERO), [0; 0]);
    }

    #[test]
    fn waits_of_a_thread_are_told_and_grow() {
        let Some((waited, times)) = thread_waits() else { return };
        give_way(true);
        std::thread::sleep(Duration::from_millis(1));
        give_way(false);
        let (waited_since, times_since) = thread_waits().unwrap();
        assert!(times_since > times && waited_since >= waited);
    }

    #[test]
    fn cpu_time_grows_with_work() {
        let before = thread_cpu();
        let mut sum = 0_u64;
        while thread_cpu() == before {
            sum = std::hint::black_box(sum + 1);
        }
        let (user, system) = thread_cpu_split();
        assert!(user + system <= thread_cpu() + Duration::from_millis(20));
    }
}
