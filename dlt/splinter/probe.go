package splinter

import (
	"crypto/rand"
	"errors"
	"strconv"
	"time"
)

// prober proves that a stream was complete up to some time. A scabbard node echoes text
// (docs/ledgers/splinter.md#events). But when it echoes the first probe it may still be replaying
// the history, while live events wait. So probes come in pairs: the second is sent when the first
// has come back. If no event comes in between, no event was waiting when the node echoed the
// second: every event that was published before the first probe was sent has been received.
type prober struct {
	interval       time.Duration
	namePrefix     string
	probeCount     int
	dueAt          time.Time // when the next pair is due
	lastText       string    // text of the probe in flight; "" if no probe is in flight
	sentAt         time.Time
	firstSentAt    time.Time // when the first probe of a pair was sent; zero while it is in flight
	isQuiet        bool      // no event came since the first probe came back
	probesSinceDue int       // probes since the pair was due
	settledUntil   time.Time // every event before this time was received; zero if that is not known of any time
	provedBy       int       // the number of the first probe of the pair that proved settledUntil; the first probe is 1
}

func newProber(every time.Duration) prober {
	return prober{interval: every, namePrefix: rand.Text()}
}

// maxSilentIntervals is how many intervals a probe may be in flight before the stream counts as
// dead.
const maxSilentIntervals = 3

// maxProbesPerInterval limits the probes of one interval. Between the events of a busy service
// there is time for a pair, but not during a replay.
const maxProbesPerInterval = 16

var errNoEcho = errors.New("splinter: the node does not echo: the stream is dead")

// nextProbe returns the text of the probe that is due, or "". waiting is true if frames have come
// that were not handled yet.
func (p *prober) nextProbe(now time.Time, waiting bool) (string, error) {
	if p.lastText != "" {
		if !waiting && now.Sub(p.sentAt) > max(maxSilentIntervals*p.interval, time.Second) {
			return "", errNoEcho
		}
		return "", nil
	}
	if now.Before(p.dueAt) {
		return "", nil
	}
	p.probeCount++
	p.lastText, p.sentAt = `{"probe":"`+p.namePrefix+`-`+strconv.Itoa(p.probeCount)+`"}`, now
	return p.lastText, nil
}

// makeDue makes a pair of probes due at once if none is in flight.
func (p *prober) makeDue(now time.Time) {
	if p.firstSentAt.IsZero() && p.lastText == "" {
		p.dueAt = now
	}
}

// noteEvent notes that an event came.
func (p *prober) noteEvent() { p.isQuiet = false }

// isEcho reports whether a frame is the echo of the probe in flight, and notes that it came.
func (p *prober) isEcho(text []byte, now time.Time) bool {
	if p.lastText == "" || string(text) != p.lastText {
		return false
	}
	p.lastText = ""
	if !p.firstSentAt.IsZero() && p.isQuiet {
		p.settledUntil, p.provedBy = p.firstSentAt, p.probeCount-1
		p.skipInterval(now)
		return true
	}
	p.probesSinceDue++
	if p.probesSinceDue >= maxProbesPerInterval {
		p.skipInterval(now)
		return true
	}
	p.firstSentAt, p.isQuiet = p.sentAt, true // this probe is the first of a pair, perhaps of a new one
	p.dueAt = now
	return true
}

func (p *prober) skipInterval(now time.Time) {
	p.firstSentAt, p.probesSinceDue, p.dueAt = time.Time{}, 0, now.Add(p.interval)
}
