package memory

import (
	"context"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
)

// stream is the log of a stream of events.
type stream struct {
	store.Stream
	ids map[string]bool
}

// loggedID is an id of a stream's log. The ids of all streams are kept in the order in which they
// were written.
type loggedID struct {
	stream    *stream
	id        string
	writtenAt time.Time
}

// LeaseStream is [store.Store].LeaseStream.
func (s *Store) LeaseStream(ctx context.Context, name, holder string, ttl time.Duration) (epoch int64, held bool, err error) {
	if err := ctx.Err(); err != nil {
		return 0, false, err
	}
	if err := store.CheckLease(name, holder, ttl); err != nil {
		return 0, false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.streams[name]
	if st == nil {
		st = &stream{ids: map[string]bool{}}
		s.streams[name] = st
	}
	next, held := st.Lease(s.now(), holder, ttl)
	if !held {
		return 0, false, nil
	}
	st.Stream = next
	return next.Epoch, true, nil
}

// AppendStream is [store.Store].AppendStream.
func (s *Store) AppendStream(ctx context.Context, e batch.StreamEntry) (held bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if err := store.CheckEntry(e); err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.streams[e.Stream]
	if st == nil {
		return false, nil
	}
	now := s.now()
	next, held := st.Append(now, e)
	if !held {
		return false, nil
	}
	st.Stream = next
	for _, id := range e.IDs {
		if !st.ids[id] {
			st.ids[id] = true
			s.log = append(s.log, loggedID{st, id, now})
		}
	}
	return true, nil
}

// FindStream is [store.Store].FindStream.
func (s *Store) FindStream(ctx context.Context, name string, ids []string) (batch.StreamFound, error) {
	if err := ctx.Err(); err != nil {
		return batch.StreamFound{}, err
	}
	if err := store.CheckStream(name); err != nil {
		return batch.StreamFound{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.streams[name]
	if st == nil {
		return batch.StreamFound{}, nil
	}
	found := st.Found(s.now())
	for _, id := range store.StreamIDs(ids) {
		if st.ids[id] {
			found.IDs = append(found.IDs, id)
		}
	}
	return found, nil
}

// pruneLog removes up to limit ids that were written at until or before, the oldest first. s.mu is
// held.
func (s *Store) pruneLog(until time.Time, limit int) (n int) {
	for n < min(limit, len(s.log)) && !s.log[n].writtenAt.After(until) {
		l := s.log[n]
		delete(l.stream.ids, l.id)
		l.stream.Stream = l.stream.Pruned(until)
		n++
	}
	clear(s.log[:n])
	s.log = s.log[n:] // the rest is copied only when the slice has to grow
	return n
}
