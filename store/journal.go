package store

import (
	"time"

	"github.com/dltbatch/dltbatch/batch"
)

// Stream is the state that a store keeps of one stream in addition to the stream's ids. Its
// methods are the rules of LeaseStream, AppendStream and FindStream as pure functions, so that all
// drivers behave the same: they return the next Stream. now is always the database's clock. The
// zero value is a stream that nobody has leased.
type Stream struct {
	Holder string
	Epoch  int64
	// LeaseExpires is the time until which the holder may write.
	LeaseExpires time.Time
	// Since and Until are the span without a gap; both are zero if there is none.
	Since, Until time.Time
	Cursor       string
}

// Lease is [Store].LeaseStream. A lease that ends later than 2*ttl from now was taken while the
// clock was ahead, and is not live: it would block the stream for as long as the clock's step. Its
// holder may still be running, so the next lease has a higher epoch.
func (s Stream) Lease(now time.Time, holder string, ttl time.Duration) (Stream, bool) {
	switch live := s.LeaseExpires.After(now) && !s.LeaseExpires.Add(-ttl).After(now.Add(ttl)); {
	case !live:
		s.Holder = holder
		s.Epoch++
	case s.Holder != holder:
		return s, false
	}
	s.LeaseExpires = now.Add(ttl)
	return s, true
}

// Append is [Store].AppendStream without the ids. An Until ahead of the clock was written before
// the clock stepped back. The time between is no longer known, so the span begins anew.
func (s Stream) Append(now time.Time, e batch.StreamEntry) (Stream, bool) {
	if s.Epoch != e.Epoch || !s.LeaseExpires.After(now) {
		return s, false
	}
	reported := now.Add(-e.Age)
	if first := time.UnixMicro(1).UTC(); reported.Before(first) {
		reported = first
	}
	switch {
	case e.Restart || s.Since.IsZero() || s.Until.After(now):
		s.Since, s.Until = reported, reported
	case reported.After(s.Until):
		s.Until = reported
	}
	s.Cursor = e.Cursor
	return s, true
}

// Pruned returns the stream after the ids written before until were removed. An id is written
// after its event, so the ids of all events since until are still there.
func (s Stream) Pruned(until time.Time) Stream {
	if !s.Since.IsZero() && s.Since.Before(until) {
		s.Since = until
	}
	return s
}

// And returns the common part of two reads of one stream, where o is the later one.
func (s Stream) And(o Stream) Stream {
	if s.Since.IsZero() || o.Since.IsZero() {
		o.Since = time.Time{}
		return o
	}
	if s.Since.After(o.Since) {
		o.Since = s.Since
	}
	if s.Until.Before(o.Until) {
		o.Until = s.Until
	}
	return o
}

// Found returns the result of [Store].FindStream without the ids.
func (s Stream) Found(now time.Time) batch.StreamFound {
	f := batch.StreamFound{Cursor: s.Cursor}
	if s.Since.IsZero() || s.Until.Before(s.Since) || s.Until.After(now) {
		return f
	}
	f.Covered, f.Since, f.Until = true, now.Sub(s.Since), now.Sub(s.Until)
	return f
}

// CheckLease returns a [*batch.InputError] for arguments that LeaseStream does not take.
func CheckLease(stream, holder string, ttl time.Duration) error {
	if err := CheckStream(stream); err != nil {
		return err
	}
	if err := checkStreamName("Holder", holder); err != nil {
		return err
	}
	if ttl <= 0 {
		return &batch.InputError{Field: "TTL", Value: ttl.String(), Want: "more than 0"}
	}
	return nil
}

// CheckEntry returns a [*batch.InputError] for an entry that AppendStream does not take.
func CheckEntry(e batch.StreamEntry) error {
	if err := CheckStream(e.Stream); err != nil {
		return err
	}
	for _, id := range e.IDs {
		if err := checkStreamName("IDs", id); err != nil {
			return err
		}
	}
	if e.Cursor != "" {
		if err := checkStreamName("Cursor", e.Cursor); err != nil {
			return err
		}
	}
	if e.Age < 0 {
		return &batch.InputError{Field: "Age", Value: e.Age.String(), Want: "0 or more"}
	}
	return nil
}

// CheckStream returns a [*batch.InputError] for a string that cannot name a stream.
func CheckStream(stream string) error { return checkStreamName("Stream", stream) }

// StreamIDs returns the ids that a log can hold, each once.
func StreamIDs(ids []string) []string {
	once := make([]string, 0, len(ids))
	seen := make(map[string]bool, len(ids))
	for _, id := range ids {
		if !seen[id] && checkStreamName("IDs", id) == nil {
			seen[id] = true
			once = append(once, id)
		}
	}
	return once
}

func checkStreamName(field, s string) error {
	if s == "" {
		return &batch.InputError{Field: field, Want: "not empty"}
	}
	return batch.CheckText(field, s, batch.MaxIDLen)
}
