package splinter

import (
	"context"
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// streamName returns the journal's name for a service's events.
func streamName(service batch.ServiceID) string { return "scabbard " + string(service) }

const (
	maxEntry     = 500    // the most ids in one entry
	maxUnwritten = 50_000 // the most ids that wait while the journal fails
)

// logWriter writes a stream's events into the journal while it has the lease. An error of the
// journal does not end the stream: the entry is tried again, and the span does not grow until it
// is written.
type logWriter struct {
	client  *Client
	service batch.ServiceID
	stream  string

	leaseEpoch   int64 // 0 means that there is no lease
	renewAt      time.Time
	unwrittenIDs []string  // received and not yet written
	coveredUntil time.Time // every event from the span's start up to this time was received
	startsSpan   bool      // the next entry starts a span at coveredUntil
	writtenUntil time.Time // the end of the span in the journal; not used while startsSpan is true
	retryAt      time.Time // after an error: no try before this time

	rootTracker *rootTracker // nil means that roots are not followed
	endRoot     string       // the root at the end of the log while the log may go on; else ""
	begunAt     time.Time    // when the stream was opened
}

// withTimeout limits the time of one write. The database dates an entry when it is written, which
// is too late by the duration of the write. So the write must take less than the margin of the
// evidence.
func (l *logWriter) withTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, l.client.options.ClockMargin/2)
}

// open starts a span at the time when the stream was opened, unless the span before it may go on,
// which the root of the state will show.
func (l *logWriter) open(ctx context.Context, begun time.Time) {
	l.renewLease(ctx)
	l.beginSpan(begun)
	l.begunAt = begun
	if l.rootTracker == nil || l.leaseEpoch == 0 {
		return
	}
	bounded, cancel := l.withTimeout(ctx)
	defer cancel()
	found, err := l.client.options.Journal.FindStream(bounded, l.stream, nil)
	if err == nil && found.Covered {
		l.endRoot = found.Cursor
	}
}

func (l *logWriter) beginSpan(at time.Time) {
	l.unwrittenIDs, l.coveredUntil, l.startsSpan, l.endRoot = nil, at, true, ""
}

// decideSpan decides whether the span of the last entry goes on: it does if no event came since
// the stream was opened, and the state is the same as at the end of the log. decideSpan reports
// whether that is decided.
func (l *logWriter) decideSpan(settled time.Time) bool {
	switch {
	case l.endRoot == "":
	case len(l.unwrittenIDs) > 0 || time.Since(l.begunAt) > maxSilentIntervals*max(l.client.options.ProbeInterval, time.Second):
		l.endRoot = "" // too late: a new span starts where the stream did
	case l.rootTracker.settledRoot == "":
		return false
	default:
		if l.rootTracker.settledRoot == l.endRoot {
			l.startsSpan, l.coveredUntil, l.writtenUntil = false, settled, l.begunAt
		}
		l.endRoot = ""
	}
	return true
}

func (l *logWriter) renewLease(ctx context.Context) {
	ttl := l.client.options.StreamLease
	l.renewAt = time.Now().Add(ttl / 3)
	bounded, cancel := l.withTimeout(ctx)
	defer cancel()
	epoch, held, err := l.client.options.Journal.LeaseStream(bounded, l.stream, l.client.leaseHolder, ttl)
	switch {
	case err != nil: // the epoch stays: an entry of an expired epoch is refused
	case !held:
		l.leaseEpoch = 0
	case epoch != l.leaseEpoch:
		// Another process may have written in between. Events that came without the lease were not
		// kept, so the span starts now.
		l.leaseEpoch = epoch
		l.beginSpan(time.Now())
	}
}

// add notes the id of a committed transaction.
func (l *logWriter) add(id string) {
	switch {
	case l.leaseEpoch == 0:
	case len(l.unwrittenIDs) >= maxUnwritten: // the journal fails for long: ids that are dropped here leave a gap
		l.beginSpan(time.Now())
	case l.client.loggedIDs.has(l.service, id): // the event is a replayed one
	default:
		l.unwrittenIDs = append(l.unwrittenIDs, id)
	}
}

// renewAndWrite renews the lease, and writes the entries that are due.
func (l *logWriter) renewAndWrite(ctx context.Context, p *prober) {
	now := time.Now()
	if now.After(l.renewAt) {
		l.renewLease(ctx)
	}
	if p.settledUntil.After(l.coveredUntil) {
		l.coveredUntil = p.settledUntil
	}
	if l.leaseEpoch == 0 || now.Before(l.retryAt) || !l.decideSpan(p.settledUntil) {
		return
	}
	for l.leaseEpoch != 0 && (l.startsSpan || len(l.unwrittenIDs) > 0 || l.coveredUntil.After(l.writtenUntil)) {
		if !l.write(ctx) {
			return
		}
	}
}

// write appends one entry. The span grows only with the last entry that is due: before that, some
// ids of the span are not written yet.
func (l *logWriter) write(ctx context.Context) bool {
	e := batch.StreamEntry{Stream: l.stream, Epoch: l.leaseEpoch, IDs: l.unwrittenIDs[:min(len(l.unwrittenIDs), maxEntry)], Restart: l.startsSpan}
	at := l.coveredUntil
	if len(e.IDs) < len(l.unwrittenIDs) {
		at = l.writtenUntil
		if l.startsSpan {
			at = l.coveredUntil
		}
	}
	if l.rootTracker != nil && len(e.IDs) == len(l.unwrittenIDs) {
		e.Cursor = l.rootTracker.settledRoot
	}
	e.Age = time.Since(at)
	if !e.Restart {
		// The monotonic clock of a machine stops while it sleeps, and during that time no event is
		// received. A span is safe if its start is too late.
		e.Age = max(e.Age, time.Now().Round(0).Sub(at.Round(0)))
	}
	bounded, cancel := l.withTimeout(ctx)
	defer cancel()
	held, err := l.client.options.Journal.AppendStream(bounded, e)
	switch {
	case err != nil:
		l.retryAt = time.Now().Add(l.client.options.ProbeInterval)
		return false
	case !held:
		l.leaseEpoch, l.unwrittenIDs = 0, nil
		l.renewAt = time.Now().Add(l.client.options.StreamLease / 3)
		return false
	}
	l.client.loggedIDs.add(l.service, e.IDs)
	l.unwrittenIDs, l.startsSpan, l.writtenUntil = l.unwrittenIDs[len(e.IDs):], false, at
	return true
}

// close writes the remaining ids after the stream has ended.
func (l *logWriter) close(ctx context.Context) {
	for l.leaseEpoch != 0 && len(l.unwrittenIDs) > 0 {
		if !l.write(ctx) {
			return
		}
	}
}
