package moving

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres"
	"github.com/dltbatch/dltbatch/store/postgres/native"
)

const markTableName = sqlstore.MovedTable

// side is one of the two databases.
type side struct {
	schemaNames
	pool        *pgxpool.Pool
	store       *native.Store
	displayName string // name for people
}

// Move moves one schema from a database to another. Only one goroutine may use it.
type Move struct {
	old, new *side // new is nil if it is not known
	options  postgres.Options
	say      func(string)
	moveID   string // id of the move in which this process takes part
}

// New returns the move of the schema in the options, from one database to another. A move that is
// only read, or taken back, may do without the other database (nil). While a step waits, say is
// called with what the step waits for.
func New(from, to *pgxpool.Pool, o postgres.Options, say func(string)) (*Move, error) {
	n := schemaNames{cmp.Or(o.Schema, postgres.DefaultSchema), o.Prefix}
	if most := 63 - len("_arriving"); len(n.schema) > most {
		return nil, &batch.InputError{Field: "schema", Value: n.schema, Want: fmt.Sprintf("at most %d bytes, in order to be moved", most)}
	}
	m := &Move{options: o, say: say}
	var err error
	if m.old, err = newSide(n, from, o); err == nil && to != nil {
		m.new, err = newSide(n, to, o)
	}
	return m, err
}

func newSide(n schemaNames, p *pgxpool.Pool, o postgres.Options) (*side, error) {
	st, err := native.New(p, &o)
	c := p.Config().ConnConfig
	return &side{n, p, st, fmt.Sprintf("%s:%d/%s", c.Host, c.Port, c.Database)}, err
}

// Standing is the progress of a move.
type Standing struct {
	Move string `json:"move,omitzero"` // id of the move; "" if none has begun
	// Next is the next step: "done" after the last; "" if the new database is not known.
	Next Step `json:"next,omitzero"`
	// Back is true if the move can still be taken back.
	Back bool `json:"back"`
	// StandingTime is for how long nothing left the lanes. It is set once the new server serves.
	StandingTime time.Duration `json:"stood,omitzero"`
}

// Stand returns the progress of the move.
func (m *Move) Stand(ctx context.Context) (Standing, error) {
	f, err := m.readFacts(ctx)
	if err != nil {
		return Standing{}, err
	}
	s := Standing{}
	if f.oldMark != nil {
		s.Move, s.Back = f.oldMark.MoveID, f.canGoBack()
	}
	if m.new == nil {
		return s, nil
	}
	if s.Next, err = decide(f); err == nil && f.newTables && (s.Next == StepFinish || s.Next == StepTidy || s.Next == StepDone) {
		s.StandingTime, err = m.new.standingTime(ctx, s.Move)
	}
	return s, err
}

// standingTime returns the time from the pause to the resumption, by the history of the lanes.
func (s *side) standingTime(ctx context.Context, move string) (time.Duration, error) {
	var micro int64
	err := s.pool.QueryRow(ctx, `SELECT coalesce(max(at) FILTER (WHERE action = $1) - min(at) FILTER (WHERE action = $2), 0)
		FROM `+s.quotedTable(s.schema, "lane_acts")+` WHERE everything AND actor = $3 AND reason = $4`,
		string(batch.ActionResume), string(batch.ActionPause), store.MoveActor, actorOf(move).Reason).Scan(&micro)
	return time.Duration(micro) * time.Microsecond, err
}

// readFacts reads the facts from both databases.
func (m *Move) readFacts(ctx context.Context) (f facts, err error) {
	f.moveID = m.moveID
	if f.oldMark, f.oldTables, err = m.old.readMarkAndTables(ctx); err != nil {
		return f, fmt.Errorf("the old database: %w", err)
	}
	if m.new != nil {
		if f.newMark, f.newTables, err = m.new.readMarkAndTables(ctx); err != nil {
			return f, fmt.Errorf("the new database: %w", err)
		}
	}
	at := m.old
	if f.oldMark != nil && f.oldMark.State != stateAnnounced && f.oldMark.State != stateTakenBack {
		at = m.new
	}
	if f.oldMark != nil && (at == m.old && f.oldTables || at == m.new && f.newTables) {
		f.control, err = at.store.Control(ctx, batch.Everything())
	}
	return f, err
}

func (s *side) readMarkAndTables(ctx context.Context) (*mark, bool, error) {
	at, err := s.readMark(ctx, s.pool)
	if err != nil {
		return nil, false, err
	}
	tables, err := tableExists(ctx, s.pool, s.quotedTable(s.schema, postgres.MigrationsTable))
	return at, tables, err
}

// Next does the next step, and returns the progress after it. After an error the move may be
// continued, by this process or by another.
func (m *Move) Next(ctx context.Context) (Standing, error) {
	for {
		f, err := m.readFacts(ctx)
		if err != nil {
			return Standing{}, err
		}
		next, err := decide(f)
		if err != nil {
			return Standing{}, err
		}
		if next == StepGoBack {
			return Standing{}, refuse("the move %s is being taken back: finish that first", f.oldMark.MoveID)
		}
		if f.oldMark != nil {
			m.moveID = f.oldMark.MoveID
		}
		if err = m.doStep(ctx, next, f); err == nil {
			return m.Stand(ctx)
		}
		if !errors.Is(err, errMovedOn) {
			return Standing{}, fmt.Errorf("%s: %w", next, err)
		}
	}
}

// doStep does one step, in one transaction.
func (m *Move) doStep(ctx context.Context, next Step, f facts) error {
	switch next {
	case StepAnnounce:
		return m.markOldDatabase(ctx, f)
	case StepPrepare:
		return m.markNewDatabase(ctx, f)
	case StepBind:
		return m.writeDownPlace(ctx, f)
	case StepTables:
		return m.makeTables(ctx, f)
	case StepPause:
		// The mark is locked meanwhile, so that no pause is made for a move that was taken back
		// and would never be resumed.
		return m.old.withMark(ctx, f.oldMark, func(pgx.Tx) error {
			_, _, err := m.old.store.Steer(ctx, store.Steering{Scope: batch.Everything(), Action: batch.ActionPause, By: actorOf(f.oldMark.MoveID)})
			return err
		})
	case StepRename:
		return m.renameTables(ctx, f)
	case StepCopy:
		return m.copyRows(ctx, f)
	case StepCompare:
		return m.compareRows(ctx, f)
	case StepLetGo:
		if f.newTables && f.newMark.State == stateRowsCompared {
			return refuse("somebody has made tables of a store in the schema of the new database: go back, and begin again")
		}
		return m.old.setMarkState(ctx, f.oldMark, stateGivenUp)
	case StepPlace:
		return m.placeTables(ctx, f)
	case StepResume:
		return m.new.resumeOwnPause(ctx, f)
	case StepFinish:
		return m.old.setMarkState(ctx, f.oldMark, stateDone)
	case StepTidy:
		return m.new.unmark(ctx, f.newMark)
	}
	return nil
}

func actorOf(move string) batch.By { return batch.By{Actor: store.MoveActor, Reason: "move " + move} }

// isMovesPause reports whether the pause of everything was made by this move.
func isMovesPause(c batch.Control, move string) bool {
	return !c.PausedAt.IsZero() && c.PausedBy == actorOf(move)
}

// resumeOwnPause ends the move's own pause. If an operator's pause has replaced it
// ([store.MoveActor]), that pause stays.
func (s *side) resumeOwnPause(ctx context.Context, f facts) error {
	_, _, err := s.store.Steer(ctx, store.Steering{Scope: batch.Everything(), Action: batch.ActionResume, By: actorOf(f.oldMark.MoveID), Seen: f.control.Version})
	if errors.Is(err, batch.ErrMovedOn) {
		return errMovedOn
	}
	return err
}

func newID() string { return rand.Text()[:10] }

const retryPause = 200 * time.Millisecond

// waitAndSay calls say with what the step waits for, and waits a moment.
func (m *Move) waitAndSay(ctx context.Context, what string) error {
	m.say(what)
	timer := time.NewTimer(retryPause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
