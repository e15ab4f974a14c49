package console

import (
	"context"
	"sync/atomic"
	"time"
)

// Limits of how long an answer is shared.
const (
	minShareTime      = time.Second      // the shortest time
	shareFactor       = 20               // times the duration of the read
	maybeOldShareTime = 30 * time.Second // the shortest time for pages that read themselves again
)

// sharedAnswer is an answer of the store that all visitors share, so that many open consoles cost
// no more than one. Once the answer is old, one visitor reads it again while the others wait. Its
// value must not be changed.
type sharedAnswer[T any] struct {
	read       func(context.Context) (T, error)
	turn       chan struct{} // holds an element while no visitor holds kept
	keptAnswer struct {
		value           T
		readAt, expires time.Time // on this process's clock
		actsBefore      int64     // number of acts before the read
	}
	actCount  atomic.Int64
	readCount atomic.Int64 // reads that succeeded
}

func newShared[T any](read func(context.Context) (T, error)) *sharedAnswer[T] {
	s := &sharedAnswer[T]{read: read, turn: make(chan struct{}, 1)}
	s.turn <- struct{}{}
	return s
}

// get returns the answer and its age. An error is not kept.
func (s *sharedAnswer[T]) get(ctx context.Context) (value T, age time.Duration, err error) {
	return s.getWithin(ctx, 0)
}

// getMaybeOld returns the answer for a page that no person waits for: it accepts an answer that is
// up to half a minute old.
func (s *sharedAnswer[T]) getMaybeOld(ctx context.Context) (value T, age time.Duration, err error) {
	return s.getWithin(ctx, maybeOldShareTime)
}

// getWithin returns the kept answer if it is younger than old, or has not expired; otherwise it
// reads again.
func (s *sharedAnswer[T]) getWithin(ctx context.Context, old time.Duration) (value T, age time.Duration, err error) {
	select {
	case <-s.turn:
	case <-ctx.Done():
		return value, 0, ctx.Err()
	}
	defer func() { s.turn <- struct{}{} }()
	acts, begin := s.actCount.Load(), time.Now()
	if fresh := begin.Before(s.keptAnswer.expires) || begin.Sub(s.keptAnswer.readAt) < old; s.keptAnswer.actsBefore == acts && fresh && !s.keptAnswer.readAt.IsZero() {
		return s.keptAnswer.value, begin.Sub(s.keptAnswer.readAt), nil
	}
	if value, err = s.read(ctx); err != nil {
		return value, 0, err
	}
	end := time.Now()
	s.readCount.Add(1)
	s.keptAnswer.value, s.keptAnswer.readAt, s.keptAnswer.actsBefore = value, begin, acts
	s.keptAnswer.expires = end.Add(max(minShareTime, shareFactor*end.Sub(begin)))
	return value, end.Sub(begin), nil
}

// forget makes the next visitor read again, because an act was done.
func (s *sharedAnswer[T]) forget() { s.actCount.Add(1) }
