package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
)

// instanceGoneAfter is how long a claim waits for other instances. A live instance writes its row
// every 15 s, and counts as gone after this time.
const instanceGoneAfter = 45 * time.Second

// checkLoss checks the witnesses in a claim, and fails once after a loss was proved.
func (t *session) checkLoss(ctx context.Context) error {
	if err := t.checkWitnesses(ctx); err != nil {
		return err
	}
	if err := t.store.commitMemory.unreportedLoss(); err != nil {
		return err
	}
	return t.requireOthersChecked(ctx)
}

// errOthersUnchecked delays the claims of a store with Options.PauseOnLostCommits after a
// failover.
var errOthersUnchecked = errors.New("another server answers, and not every instance has looked whether commits are lost: nothing is claimed for 45 s at most")

const sqlInstances = `SELECT t.body FROM {texts} t WHERE t.kind = 'instance' AND t.changed_at > ` + clock + ` - $1::bigint`

// requireOthersChecked refuses the claim, if everything is to be paused on a loss, until each live
// instance has checked this server, because only the instance knows what it has written. Claims
// are refused for no longer than instanceGoneAfter.
func (t *session) requireOthersChecked(ctx context.Context) error {
	w := &t.store.commitMemory
	if !t.store.opts.PauseOnLostCommits || !w.othersMayKnow(time.Now()) {
		return nil
	}
	if err := t.planAnew(ctx); err != nil {
		return err
	}
	// After a failover the clock is that of another machine, so the statement allows for a longer
	// time.
	rows, err := sqlstore.Query[string](ctx, t, sqlInstances, int64(2*instanceGoneAfter/time.Microsecond))
	if err != nil {
		return fmt.Errorf("look for other instances: %w", err)
	}
	for _, body := range rows {
		var i store.Instance
		if json.Unmarshal([]byte(body), &i) == nil && i.Looked != "" && i.Looked != t.server {
			return errOthersUnchecked
		}
	}
	w.noteOthersHeard()
	return nil
}

// othersMayKnow reports whether other instances may know of a loss that this one does not know of.
func (w *commitMemory) othersMayKnow(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.haveOthersChecked && now.Sub(w.serverSince) < instanceGoneAfter
}

func (w *commitMemory) noteOthersHeard() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.haveOthersChecked = true
}

// Looked is [store.Instance].Looked: the server on which no commit of this store is lost, or for
// whose loss everything is paused. It checks the server itself, because this store may not claim
// for a while. Without Options.PauseOnLostCommits no instance waits, and it returns "".
func (s *Store) Looked(ctx context.Context) string {
	if !s.opts.PauseOnLostCommits {
		return ""
	}
	server := ""
	err := s.tx(ctx, "look for lost commits", func(_ context.Context, t *session) error {
		server = t.server
		return nil
	})
	if news := s.commitMemory.unreportedLoss(); err == nil && news != nil {
		err = s.pauseOnLoss(ctx, news)
	}
	if err != nil {
		return serverUnknown
	}
	return server
}

// serverUnknown stands for the server while the instance does not know it.
const serverUnknown = "?"

// lossActor is the actor who pauses everything if Options.PauseOnLostCommits is set.
const lossActor = "dltbatch"

const (
	sqlLossKnown = `SELECT EXISTS (SELECT 1 FROM {texts} t WHERE t.kind = 'lost' AND t.name = ` + sqlIncarnation + `::text)`
	sqlKeepLoss  = `INSERT INTO {texts} (kind, name, version, begun_at, changed_at, body)
	SELECT 'lost', ` + sqlIncarnation + `::text, 1, ` + clock + `, ` + clock + `, $1::text ON CONFLICT DO NOTHING`
)

// reportLoss ends the claim that found a loss. If everything is to be paused and the pause fails,
// the next claim fails, too. If one instance has paused everything and a person has resumed it, no
// other instance pauses it again for the same failover.
func (s *Store) reportLoss(ctx context.Context, err error) error {
	if s.opts.PauseOnLostCommits {
		if failed := s.pauseOnLoss(ctx, err); failed != nil {
			return errors.Join(err, failed)
		}
	}
	s.commitMemory.noteLossReported()
	return err
}

// pauseOnLoss pauses everything, once for each incarnation of the database.
func (s *Store) pauseOnLoss(ctx context.Context, loss error) error {
	const op = "pause on lost commits"
	known := false
	err := s.tx(ctx, op, func(ctx context.Context, t *session) (err error) {
		known, _, err = sqlstore.Get[bool](ctx, t, sqlLossKnown)
		return err
	})
	if err != nil || known {
		return err
	}
	pause := store.Steering{
		Scope: batch.Everything(), Action: batch.ActionPause,
		// Another claim at the same time may have reported the proof.
		By: batch.By{Actor: lossActor, Reason: loss.Error()},
	}
	if _, _, err := s.Steer(ctx, pause); err != nil {
		return err
	}
	return s.tx(ctx, op, func(ctx context.Context, t *session) error {
		_, err := t.Exec(ctx, sqlKeepLoss, loss.Error())
		return err
	})
}
