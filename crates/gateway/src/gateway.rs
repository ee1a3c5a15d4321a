//! The whole: listeners, workers, and their end.

use std::io;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;

use mio::Waker;
use thiserror::Error;

use crate::client::ClientStream;
use crate::worker::{Order, Worker};
use crate::{Exposed, Listen, Options};

/// Why a gateway cannot start.
#[derive(Debug, Error)]
pub enum GatewayError {
    /// It cannot listen.
    #[error("cannot listen on {place}: {source}")]
    Listen {
        /// Address or path.
        place: String,
        /// What the system said.
        source: io::Error,
    },
    /// The system refuses what an event loop needs.
    #[error("cannot start a worker: {0}")]
    Worker(#[from] io::Error),
}

/// A gateway that runs until it is dropped.
#[derive(Debug)]
pub struct Gateway {
    workers: Vec<Handle>,
    acceptors: Vec<Acceptor>,
    threads: Vec<JoinHandle<()>>,
}

/// How a worker is told something.
#[derive(Debug, Clone)]
struct Handle {
    orders: Sender<Order>,
    waker: Arc<Waker>,
}

impl Handle {
    fn tell(&self, order: Order) {
        // A worker that has ended is told nothing.
        if self.orders.send(order).is_ok() {
            let _ = self.waker.wake();
        }
    }
}

/// A thread that takes new connections.
#[derive(Debug)]
struct Acceptor {
    place: Listen,
    ends: Arc<AtomicBool>,
}

impl Gateway {
    /// Listens and starts the workers.
    ///
    /// # Errors
    /// When an address is taken, or the system refuses.
    pub fn start(options: Options) -> Result<Gateway, GatewayError> {
        let exposed = Exposed::default();
        let mut gateway =
            Gateway { workers: Vec::new(), acceptors: Vec::new(), threads: Vec::new() };
        for number in 0..options.workers.max(1) {
            let (mut worker, orders, waker) =
                Worker::new(number, options.clone(), exposed.clone())?;
            gateway.workers.push(Handle { orders, waker });
            let name = format!("gateway-{number}");
            let thread = std::thread::Builder::new().name(name).spawn(move || {
                if let Err(error) = worker.run() {
                    tracing::error!("a worker ended: {error}");
                }
            })?;
            gateway.threads.push(thread);
        }
        for place in &options.listen {
            gateway.listen(place)?;
        }
        Ok(gateway)
    }

    /// Where it listens, with the port that the system chose.
    pub fn places(&self) -> impl Iterator<Item = &Listen> {
        self.acceptors.iter().map(|acceptor| &acceptor.place)
    }

    fn listen(&mut self, place: &Listen) -> Result<(), GatewayError> {
        let refused = |source| {
            let place = match place {
                Listen::Tcp(address) => address.to_string(),
                Listen::Unix(path) => path.display().to_string(),
            };
            GatewayError::Listen { place, source }
        };
        let ends = Arc::new(AtomicBool::new(false));
        let mut workers = self.workers.clone().into_iter().cycle();
        let ended = ends.clone();
        let place = match place {
            Listen::Tcp(address) => {
                let listener = TcpListener::bind(address).map_err(refused)?;
                let address = listener.local_addr().map_err(refused)?;
                let thread = std::thread::spawn(move || {
                    while let Ok((stream, _)) = listener.accept() {
                        if ended.load(Ordering::SeqCst) {
                            break;
                        }
                        let ready =
                            stream.set_nodelay(true).and_then(|()| stream.set_nonblocking(true));
                        if let (Ok(()), Some(worker)) = (ready, workers.next()) {
                            let stream = mio::net::TcpStream::from_std(stream);
                            worker.tell(Order::Client(ClientStream::Tcp(stream)));
                        }
                    }
                });
                self.threads.push(thread);
                Listen::Tcp(address)
            }
            Listen::Unix(path) => {
                let listener = UnixListener::bind(path).map_err(refused)?;
                let thread = std::thread::spawn(move || {
                    while let Ok((stream, _)) = listener.accept() {
                        if ended.load(Ordering::SeqCst) {
                            break;
                        }
                        let ready = stream.set_nonblocking(true);
                        if let (Ok(()), Some(worker)) = (ready, workers.next()) {
                            let stream = mio::net::UnixStream::from_std(stream);
                            worker.tell(Order::Client(ClientStream::Unix(stream)));
                        }
                    }
                });
                self.threads.push(thread);
                Listen::Unix(path.clone())
            }
        };
        self.acceptors.push(Acceptor { place, ends });
        Ok(())
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        for acceptor in &self.acceptors {
            acceptor.ends.store(true, Ordering::SeqCst);
            // A connection ends the wait for one.
            match &acceptor.place {
                Listen::Tcp(address) => drop(std::net::TcpStream::connect(address)),
                Listen::Unix(path) => {
                    drop(std::os::unix::net::UnixStream::connect(path));
                    // Whoever removed it already did the same.
                    let _ = std::fs::remove_file(path);
                }
            }
        }
        for worker in &self.workers {
            worker.tell(Order::End);
        }
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}
