package engine

import (
	"context"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/health"
)

// stream is one event stream, across all its connections.
type stream struct {
	done            <-chan struct{} // closed when the stream is no longer followed
	receivedAt      time.Time       // time of the last event
	lostAt          time.Time       // zero while events come, and before the first event or failure
	lostConnections int             // connections lost since the last event
	err             error
}

func (s *stream) health() health.PartHealth {
	h := health.PartHealth{LastSuccess: s.receivedAt}
	switch {
	case !s.lostAt.IsZero():
		h.Condition, h.FailingSince, h.Failures, h.Err = health.ConditionFailing, s.lostAt, s.lostConnections, s.err
	case !s.receivedAt.IsZero():
		h.Condition = health.ConditionOK
	}
	return h
}

// streamOf returns the stream of a connection. Connections of one stream share a context, which is
// done when the stream is no longer followed.
func (v *vitals) streamOf(ctx context.Context, services []batch.ServiceID) *stream {
	var key batch.ServiceID // "" for the stream of a whole ledger
	if len(services) > 0 {
		key = services[0]
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	st := v.streams[key]
	if st == nil || st.done != ctx.Done() {
		st = &stream{done: ctx.Done()}
		v.streams[key] = st
		context.AfterFunc(ctx, func() {
			v.mu.Lock()
			defer v.mu.Unlock()
			if v.streams[key] == st {
				delete(v.streams, key)
			}
		})
	}
	return st
}

func (v *vitals) streamReceived(st *stream) {
	v.mu.Lock()
	defer v.mu.Unlock()
	st.receivedAt = time.Now()
	st.lostAt, st.lostConnections, st.err = time.Time{}, 0, nil
}

func (v *vitals) streamLost(st *stream, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if st.lostConnections++; st.lostAt.IsZero() {
		st.lostAt = time.Now()
	}
	st.err = err
}
