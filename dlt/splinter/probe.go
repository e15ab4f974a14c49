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
	interval       time.Duration
	name           string
	count          int
	dueAt          time.Time // when the next pair is due
	text           string    // of the probe in flight; "" if none
	sentAt         time.Time
	firstSentAt    time.Time // when the first of a pair was sent; zero while it is in flight
	quiet          bool      // no event since the first came back
	probesSinceDue int       // probes since the pair was due
	settledUntil   time.Time // everything before this was received; zero if nothing yet
	provedBy       int       // number of the probe that proved it, the first of a pair; the first probe is 1
}

func newProber(every time.Duration) prober {
	return prober{interval: every, name: rand.Text()}
}

// maxSilentIntervals is how many intervals a probe may be in flight before the stream counts as
// dead.
const maxSilentIntervals = 3

// maxProbesPerInterval bounds the probes of one interval: between the events of a busy service
// there is time for a pair, in a replay there is none.
const maxProbesPerInterval = 16

var errNoEcho = errors.New("splinter: the node does not echo: the stream is dead")

// next returns the text of the probe that is due, or "". waiting means that frames have come
// which were not read yet.
func (p *prober) next(now time.Time, waiting bool) (string, error) {
	if p.text != "" {
		if !waiting && now.Sub(p.sentAt) > max(maxSilentIntervals*p.interval, time.Second) {
			return "", errNoEcho
		}
		return "", nil
	}
	if now.Before(p.dueAt) {
		return "", nil
	}
	p.count++
	p.text, p.sentAt = `{"probe":"`+p.name+`-`+strconv.Itoa(p.count)+`"}`, now
	return p.text, nil
}

// makeDue makes a pair of probes due at once if none is in flight.
func (p *prober) makeDue(now time.Time) {
	if p.firstSentAt.IsZero() && p.text == "" {
		p.dueAt = now
	}
}

// noteEvent notes that an event came.
func (p *prober) noteEvent() { p.quiet = false }

// isEcho takes a frame, and reports whether it is the probe's echo.
func (p *prober) isEcho(text []byte, now time.Time) bool {
	if p.text == "" || string(text) != p.text {
		return false
	}
	p.text = ""
	if !p.firstSentAt.IsZero() && p.quiet {
		p.settledUntil, p.provedBy = p.firstSentAt, p.count-1
		p.pause(now)
		return true
	}
	p.probesSinceDue++
	if p.probesSinceDue >= maxProbesPerInterval {
		p.pause(now)
		return true
	}
	p.firstSentAt, p.quiet = p.sentAt, true // this probe is the first of a pair, perhaps of a new one
	p.dueAt = now
	return true
}

func (p *prober) pause(now time.Time) {
	p.firstSentAt, p.probesSinceDue, p.dueAt = time.Time{}, 0, now.Add(p.interval)
}
