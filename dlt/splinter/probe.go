package splinter

import (
	"crypto/rand"
	"errors"
	"strconv"
	"time"
)

// prober proves that a stream was complete up to some time. A scabbard node echoes text
// (docs/ledgers/splinter.md#events). But when it echoes the first probe it may still be
// replaying the history, with live events waiting behind. So probes come in pairs: the second
// is sent when the first is back. If no event comes in between, nothing was waiting when the
// node echoed the second: every event published before the first probe was sent has been
// received.
type prober struct {
	every   time.Duration
	name    string
	count   int
	due     time.Time // when the next pair is due
	text    string    // of the probe in flight; "" if none
	sent    time.Time
	first   time.Time // when the first of a pair was sent; zero while it is in flight
	quiet   bool      // no event since the first came back
	hurried int       // probes since the pair was due
	settled time.Time // everything before this was received; zero if nothing yet
	shown   int       // number of the probe that proved it, the first of a pair; the first probe is 1
}

func newProber(every time.Duration) prober {
	return prober{every: every, name: rand.Text()}
}

// silence is how many intervals a probe may be in flight before the stream counts as dead.
const silence = 3

// hurry bounds the probes of one interval: between the events of a busy service there is time
// for a pair, in a replay there is none.
const hurry = 16

var errSilent = errors.New("splinter: the node does not echo: the stream is dead")

// next returns the text of the probe that is due, or "". waiting means that frames have come
// which were not read yet.
func (p *prober) next(now time.Time, waiting bool) (string, error) {
	if p.text != "" {
		if !waiting && now.Sub(p.sent) > max(silence*p.every, time.Second) {
			return "", errSilent
		}
		return "", nil
	}
	if now.Before(p.due) {
		return "", nil
	}
	p.count++
	p.text, p.sent = `{"probe":"`+p.name+`-`+strconv.Itoa(p.count)+`"}`, now
	return p.text, nil
}

// soon makes a pair due at once if none is in flight.
func (p *prober) soon(now time.Time) {
	if p.first.IsZero() && p.text == "" {
		p.due = now
	}
}

// disturbed notes an event.
func (p *prober) disturbed() { p.quiet = false }

// echoed takes a frame, and reports whether it is the probe's echo.
func (p *prober) echoed(text []byte, now time.Time) bool {
	if p.text == "" || string(text) != p.text {
		return false
	}
	p.text = ""
	if !p.first.IsZero() && p.quiet {
		p.settled, p.shown = p.first, p.count-1
		p.pause(now)
		return true
	}
	p.hurried++
	if p.hurried >= hurry {
		p.pause(now)
		return true
	}
	p.first, p.quiet = p.sent, true // this probe is the first of a pair, perhaps of a new one
	p.due = now
	return true
}

func (p *prober) pause(now time.Time) {
	p.first, p.hurried, p.due = time.Time{}, 0, now.Add(p.every)
}
