//! The full-screen view: the terminal is taken when it opens, and given back however the process ends.
//!
//! Drawn by ratatui, with crossterm alone: it sends a terminal what has changed, fits any size, and draws into memory for tests. A thousand
//! crates draw by it, and it is released several times a year.
//!
//! 1. Between [`Screen::open`] and its drop, the terminal shows keys to nobody and has a screen of its own.
//! 2. [`restore`] gives it back: at the drop, in a panic, and before a second signal ends the process.

mod frame;

pub(crate) use frame::View;

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use std::io::{self, IsTerminal, Stdout};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

static IS_OPEN: AtomicBool = AtomicBool::new(false);

/// A terminal that is taken.
pub(crate) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The end, as that of the input: q, or escape.
    Quit,
    /// The end, as by a signal: Ctrl-C.
    Interrupt,
}

impl Screen {
    /// Takes the terminal; `None` where standard output is none that shows a full screen.
    pub(crate) fn open() -> Option<Self> {
        let is_dumb = std::env::var_os("TERM").is_none_or(|name| name.is_empty() || name == "dumb");
        if is_dumb || !io::stdout().is_terminal() {
            return None;
        }
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let print = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                restore();
                print(panic);
            }));
        });
        // Where there is no keyboard, lines will do.
        enable_raw_mode().ok()?;
        IS_OPEN.store(true, Ordering::SeqCst);
        let taken = execute!(io::stdout(), EnterAlternateScreen, Hide);
        let terminal = taken.and_then(|()| Terminal::new(CrosstermBackend::new(io::stdout())));
        match terminal {
            Ok(terminal) => Some(Self { terminal }),
            Err(_) => {
                restore();
                None
            }
        }
    }

    /// Shows a view.
    pub(crate) fn show(&mut self, view: &View<'_>) -> io::Result<()> {
        self.terminal.draw(|frame| frame::draw(frame, view)).map(drop)
    }

    /// What the keys that were pressed ask for.
    pub(crate) fn asked(&self) -> io::Result<Option<Asked>> {
        while event::poll(Duration::ZERO)? {
            if let Event::Key(key) = event::read()?
                && key.kind == KeyEventKind::Press
            {
                let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
                match key.code {
                    KeyCode::Char('c') if is_control => return Ok(Some(Asked::Interrupt)),
                    KeyCode::Char('q' | 'Q') | KeyCode::Esc => return Ok(Some(Asked::Quit)),
                    _ => {}
                }
            }
        }
        Ok(None)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Gives the terminal back, if it is taken.
pub(crate) fn restore() {
    if IS_OPEN.swap(false, Ordering::SeqCst) {
        // There is no other way to tell whoever sits before it.
        let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
    }
}
