package sqlite

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// Abilities returns all abilities. [store.CanHint] is among them only where [Store.Hear] works:
// for a file, on Linux.
func (s *Store) Abilities() store.Abilities {
	all := s.sharedStore.Abilities()
	if canWatch && s.files.path != "" {
		all |= store.CanHint
	}
	return all
}

// Tell passes a hint to the listeners of this store. Other processes, and other stores, notice the
// commit itself, so Tell costs them nothing.
func (s *Store) Tell(ctx context.Context, h store.Hint) error {
	if !s.Abilities().Has(store.CanHint) {
		return s.sharedStore.Tell(ctx, h)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	s.listeners.tell(h)
	return nil
}

const (
	// hearTestInterval is the pause between two tests. hearTestTimeLimit is how long the event of
	// a test may take.
	hearTestInterval  = time.Minute
	hearTestTimeLimit = time.Second
	hearReadTimeLimit = 5 * time.Second // the time limit of one read

	hearWay = "inotify on the write-ahead log" // how hints arrive, for people
)

// Hear is [store.Store].Hear. It waits until the system reports that the log was written
// (inotify), and then reads what is new: batches that this store has not added itself, lanes on
// which a person has acted, batches and orders that became final, and orders. While nobody writes
// it uses no CPU time. It works between processes on the same kernel, as SQLite's write-ahead log
// does.
func (s *Store) Hear(ctx context.Context, l store.Listener) error {
	const op = "hear"
	if !s.Abilities().Has(store.CanHint) {
		return s.sharedStore.Hear(ctx, l)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	w, err := newWatch(s.files)
	if err != nil {
		return wrap(op, err)
	}
	defer w.close()
	defer context.AfterFunc(ctx, w.close)() // this ends a wait
	defer s.listeners.add(l)()
	h := &hearCall{store: s, watch: w, listener: l}
	if err := h.run(ctx); ctx.Err() == nil {
		return wrap(op, err)
	}
	return ctx.Err()
}

// observation is what a [watch] saw of the database's files. written is true if a commit may have
// been written. touched is true if only the times of a file were set, as the watch's own test
// does.
type observation struct{ isWritten, isTouched bool }

// hearCall is one call of Hear.
type hearCall struct {
	store    *Store
	watch    *watch
	listener store.Listener

	marks [topicCount]readMark
}

// run reads and passes hints on until an error.
func (h *hearCall) run(ctx context.Context) error {
	if err := h.readNews(ctx); err != nil { // sets the marks; later rows are new
		return err
	}
	return h.listen(ctx)
}

// listen reads after each write. At the beginning and once a minute it tests that it notices
// writes.
func (h *hearCall) listen(ctx context.Context) error {
	var looks readPace
	touched := false // true while a test waits for its event
	for next := time.Now(); ; {
		if !time.Now().Before(next) {
			if touched {
				return fmt.Errorf("inotify does not show writes to %s", h.store.files.logPath())
			}
			if err := h.watch.touch(); err != nil {
				return err
			}
			touched, next = true, time.Now().Add(hearTestTimeLimit)
		}
		if looks.isDue(time.Now()) {
			began := time.Now()
			if err := h.readNews(ctx); err != nil {
				return err
			}
			looks.noteRead(began, time.Now())
		}
		saw, err := h.wait(ctx, looks.nextRead(next))
		if err != nil {
			return err
		}
		if saw.isWritten {
			looks.noteWrite(time.Now())
		}
		if touched && saw != (observation{}) { // an event of any kind shows that events arrive
			touched, next = false, time.Now().Add(hearTestInterval)
			h.listener.Live(hearWay)
		}
	}
}

// wait waits for an event, at most until a given time. During frequent writes, which are mostly
// this process's own, it only waits for the next read, which is due soon.
func (h *hearCall) wait(ctx context.Context, until time.Time) (observation, error) {
	d := time.Until(until)
	if d <= 0 || d > busyPause {
		return h.watch.wait(d)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return observation{}, ctx.Err()
	case <-t.C:
		return h.watch.wait(0)
	}
}

// readNews reads the new rows, and passes a hint about them to the listener.
func (h *hearCall) readNews(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, hearReadTimeLimit)
	defer cancel()
	var hint store.Hint
	marks := h.marks
	err := h.store.read(ctx, "read new rows", func(ctx context.Context, t *session) error {
		hint, marks = store.Hint{}, h.marks
		free := context.WithoutCancel(ctx)
		for i, topic := range h.store.topics() {
			if h.listener.Wants.Has(topic.Topics) {
				if err := topic.readNews(free, t, &marks[i], &hint); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	h.marks = marks
	if hint.For(h.listener) {
		h.listener.Heard(hint)
	}
	return nil
}

// readMark is how far a table was read: up to its last number, or its last time together with the
// number of rows of that time, since the clock has milliseconds.
type readMark struct {
	Begun bool  `db:"-"`
	Last  int64 `db:"last"`
	N     int64 `db:"n"`
	Ahead bool  `db:"ahead"` // true if the clock has stepped back behind Last, so that new rows cannot be recognised
}

// maxHintNames is the largest number of lanes, or of batches, that one hint names.
const maxHintNames = 500

// topic is a table that a [hearCall] reads.
type topic struct {
	store.Topics
	markQuery string // reads the mark
	newsQuery string // reads up to maxHintNames+1 new rows between two marks; "" if the hint names nothing
	addNames  func(ctx context.Context, t *session, statement string, from, to readMark, h *store.Hint) (n int, err error)
}

// topicCount is the number of topics.
const topicCount = 6

func (s *Store) topics() [topicCount]topic {
	return [topicCount]topic{
		{store.TopicLanes, sqlMarkBatches, sqlNewLanes, s.nameAdded},
		{store.TopicLanes, sqlMarkActs, sqlNewActs, nameActedOn},
		{store.TopicLanes, sqlMarkLaneActs, sqlNewLaneActs, nameActedOn},
		{store.TopicFinals, sqlMarkFinals, sqlNewFinals, nameFinals},
		{store.TopicOrders, sqlMarkOrders, "", nil},
		{store.TopicOrderFinals, sqlMarkFinalOrders, sqlNewFinalOrders, nameFinalOrders},
	}
}

// readNews adds the rows that are new since a mark to a hint, and advances the mark.
func (p topic) readNews(ctx context.Context, t *session, last *readMark, h *store.Hint) error {
	found, err := sqlstore.Query[readMark](ctx, t, p.markQuery)
	if err != nil {
		return err
	}
	before, now := *last, found[0]
	now.Begun = true
	if *last = now; !before.Begun || before == now && !now.Ahead {
		return nil
	}
	if p.newsQuery == "" || now.Ahead {
		h.WholeTopics |= p.Topics
		return nil
	}
	n, err := p.addNames(ctx, t, p.newsQuery, before, now, h)
	if n > maxHintNames {
		h.WholeTopics |= p.Topics
	}
	return err
}

// nameAdded names the lanes to which another store has added.
func (s *Store) nameAdded(ctx context.Context, t *session, statement string, from, to readMark, h *store.Hint) (n int, err error) {
	for _, gap := range s.ownSpans.gaps(from.Last+1, to.Last) {
		found, err := sqlstore.Query[laneCols](ctx, t, statement, gap.first, gap.last, int64(maxHintNames+1))
		if err != nil {
			return 0, err
		}
		n += len(found)
		nameLanes(h, found)
	}
	return n, nil
}

// laneCols is a lane, or stands for all lanes.
type laneCols struct {
	Service    batch.ServiceID `db:"service_id"`
	Everything bool            `db:"everything"`
}

func nameLanes(h *store.Hint, found []laneCols) {
	for _, l := range found[:min(len(found), maxHintNames)] {
		switch {
		case l.Everything:
			h.WholeTopics |= store.TopicLanes
		case !slices.Contains(h.Lanes, l.Service):
			h.Lanes = append(h.Lanes, l.Service)
		}
	}
}

// nameActedOn names the lanes on which a person has acted, because their batches may be free to
// leave now.
func nameActedOn(ctx context.Context, t *session, statement string, from, _ readMark, h *store.Hint) (int, error) {
	found, err := sqlstore.Query[laneCols](ctx, t, statement, from.Last, int64(maxHintNames+1))
	nameLanes(h, found)
	return len(found), err
}

func nameFinals(ctx context.Context, t *session, statement string, from, _ readMark, h *store.Hint) (int, error) {
	type key struct {
		Service string `db:"service_id"`
		ID      string `db:"header_signature"`
	}
	found, err := sqlstore.Query[key](ctx, t, statement, from.Last, int64(maxHintNames+1))
	for _, k := range found[:min(len(found), maxHintNames)] {
		h.Finals = append(h.Finals, store.KeyHash(k.Service, k.ID))
	}
	return len(found), err
}

func nameFinalOrders(ctx context.Context, t *session, statement string, from, _ readMark, h *store.Hint) (int, error) {
	type key struct {
		ID string `db:"order_id"`
	}
	found, err := sqlstore.Query[key](ctx, t, statement, from.Last, int64(maxHintNames+1))
	for _, k := range found[:min(len(found), maxHintNames)] {
		h.OrderFinals = append(h.OrderFinals, store.KeyHash(k.ID))
	}
	return len(found), err
}

// listeners are the listeners of one store.
type listeners struct {
	mu  sync.Mutex
	all []*store.Listener
}

// add adds a listener. The returned function removes it.
func (s *listeners) add(l store.Listener) (remove func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, &l)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all = slices.DeleteFunc(s.all, func(other *store.Listener) bool { return other == &l })
	}
}

func (s *listeners) tell(h store.Hint) {
	s.mu.Lock()
	all := slices.Clone(s.all)
	s.mu.Unlock()
	for _, l := range all {
		if h.For(*l) {
			l.Heard(h)
		}
	}
}
