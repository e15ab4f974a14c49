package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/desks"
	"github.com/dltbatch/dltbatch/operator"
	"github.com/dltbatch/dltbatch/store"
)

// databases holds all shards of a set in the order of their numbers (package shards), or one
// database, which need not be a shard.
type databases struct {
	app            *app
	list           []*database
	reportedShards []int         // shards whose failure was printed
	missing        []failedShard // failed shards that were asked: the answer lacks their part
	// timeLimit is added to answerTimeLimit: how long a query may take, as the command line says.
	timeLimit time.Duration
}

// failedShard is a shard that failed, with the reason.
type failedShard struct {
	number int
	err    error
}

// areSeveral reports whether there is more than one database, so that these are shards.
func (all *databases) areSeveral() bool { return len(all.list) > 1 }

// errNotWhole says that an answer lacks some shards.
var errNotWhole = errors.New("the answer is not whole")

// shardTimeLimit is how long a command waits for a server before it continues without the shard.
const shardTimeLimit = 15 * time.Second

// answerTimeLimit is how long a command waits for the answer of one of several shards, since a
// server may freeze after it was opened. It is longer than any read of a whole schema takes.
const answerTimeLimit = time.Minute

// errNoAnswer is the error for a shard that did not answer in time. Its server may still have done
// the act.
var errNoAnswer = errors.New("no answer")

// withTimeLimit calls do for one database. With several shards it limits the time, so that a shard
// that does not answer does not block the others.
func withTimeLimit[T any](ctx context.Context, all *databases, do func(context.Context) (T, error)) (T, error) {
	if !all.areSeveral() {
		return do(ctx)
	}
	limit := answerTimeLimit + all.timeLimit
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	v, err := do(limited)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w within %s: %w", errNoAnswer, limit, err)
	}
	return v, err
}

// targets returns the databases that the command line names. It takes as many schemas as data
// source names, or one of either that is used for all.
func (a *app) targets() ([]target, error) {
	dsns, schemas := a.dsns, a.schemas
	if len(dsns) == 0 {
		for line := range strings.Lines(a.getenv("DLTBATCH_DSN")) {
			if line = strings.TrimSpace(line); line != "" {
				dsns = append(dsns, line)
			}
		}
	}
	if len(dsns) == 0 {
		dsns = []string{""}
	}
	if len(schemas) == 0 {
		schemas = []string{""}
	}
	n := max(len(dsns), len(schemas))
	if len(dsns) != n && len(dsns) > 1 || len(schemas) != n && len(schemas) > 1 {
		return nil, fmt.Errorf("%w: %d data source names and %d schemas: give as many of both, or one of either for all", errUsage, len(dsns), len(schemas))
	}
	list := make([]target, n)
	for i := range list {
		list[i] = target{dsn: dsns[min(i, len(dsns)-1)], schema: schemas[min(i, len(schemas)-1)], prefix: a.prefix}
	}
	return list, nil
}

// target returns the database for a command that works on one only.
func (a *app) target() (target, error) {
	if len(a.namedTargets) > 1 {
		return target{}, fmt.Errorf("%w: the command works on one database: give one data source name and one schema, of one shard", errUsage)
	}
	return a.namedTargets[0], nil
}

// databasesCommand returns a command that runs do with all databases of the command line.
func (a *app) databasesCommand(c *cobra.Command, do func(ctx context.Context, all *databases, args []string) error) *cobra.Command {
	return a.plainCommand(c, func(ctx context.Context, args []string) error {
		all, err := a.openAll(ctx)
		if err != nil {
			return err
		}
		defer all.close()
		if err := do(ctx, all, args); err != nil {
			return err
		}
		return all.partError("")
	})
}

// partError returns the error for an answer without the shards that failed; nil if no shard
// failed. If all of these shards answered with a refusal, the error wraps the first refusal.
func (all *databases) partError(then string) error {
	var silent, refused []int
	var firstReason error
	for _, s := range all.missing {
		if exitCode(s.err) == exitFailed {
			silent = append(silent, s.number)
		} else {
			refused, firstReason = append(refused, s.number), cmp.Or(firstReason, s.err)
		}
	}
	of := len(all.list)
	switch {
	case len(silent) > 0 && len(refused) > 0:
		return fmt.Errorf("%w: %s did not answer, and %s refused%s", errNotWhole, desks.NameShards(silent, of), desks.NameShards(refused, of), then)
	case len(silent) > 0:
		return fmt.Errorf("%w: %s did not answer%s", errNotWhole, desks.NameShards(silent, of), then)
	case len(refused) > 0:
		return &refusal{fmt.Errorf("%w: %s refused%s", errNotWhole, desks.NameShards(refused, of), then), firstReason}
	}
	return nil
}

// refusal is the error of an answer without the shards that refused. Its text leaves out the
// reasons, which were printed for each shard. The field why, the first reason, decides the exit
// code.
type refusal struct {
	error
	firstReason error
}

// Unwrap returns the error with the text, and the reason.
func (r *refusal) Unwrap() []error { return []error{r.error, r.firstReason} }

func (all *databases) close() {
	for _, db := range slices.Backward(all.list) { // the first database of those that share a pool closes it
		if db.close != nil {
			db.close()
		}
	}
}

// openAll opens all databases. If there are several, it reads which shards they are: they must be
// all shards of one set, in the order of their numbers. It prints the error of a database that
// fails, and leaves that shard out.
func (a *app) openAll(ctx context.Context) (*databases, error) {
	all := &databases{app: a}
	if len(a.namedTargets) == 1 {
		db, err := a.openDatabase(ctx, a.namedTargets[0])
		if err != nil {
			return nil, err
		}
		db.t, all.list = a.namedTargets[0], []*database{db}
		return all, nil
	}
	pools := map[string]*pgxpool.Pool{}
	for _, t := range a.namedTargets {
		t.pool = pools[t.dsn]
		db, err := a.openDatabase(ctx, t)
		if err != nil {
			all.close()
			return nil, err
		}
		db.t = t
		pools[t.dsn], all.list = db.postgres, append(all.list, db)
	}
	limited, cancel := context.WithTimeout(ctx, shardTimeLimit)
	defer cancel()
	found := desks.Ask(limited, all.list, func(ctx context.Context, db *database) (store.Shard, error) {
		if db.shard == nil {
			return store.Shard{}, fmt.Errorf("%w: only schemas of PostgreSQL are shards: give one data source name", errUsage)
		}
		return db.shard(ctx)
	})
	set := ""
	for _, f := range found {
		have := f.Value
		if f.Err == nil && have != (store.Shard{Set: cmp.Or(set, have.Set), Number: f.Shard, Of: len(found)}) {
			f.Err = fmt.Errorf("%w: database %d is %s; give all shards of one set, in the order of their numbers", errUsage, f.Shard+1, have)
		}
		set = cmp.Or(set, have.Set)
		if errors.Is(f.Err, errUsage) || ctx.Err() != nil {
			all.close()
			return nil, cmp.Or(ctx.Err(), f.Err)
		}
		all.list[f.Shard].openErr = f.Err
	}
	if tellFailed(all, found); len(all.reportedShards) == len(all.list) {
		all.close()
		noteMissing(all, found)
		return nil, all.partError("")
	}
	return all, nil
}

// tellFailed prints the errors of shards that failed, once for each shard.
func tellFailed[T any](all *databases, answers []desks.Answer[T]) {
	for _, x := range answers {
		if x.Err != nil && !slices.Contains(all.reportedShards, x.Shard) {
			all.reportedShards = append(all.reportedShards, x.Shard)
			all.app.printErrorText(fmt.Sprintf("shard %d: %s", x.Shard, all.app.safeText(x.Err)), exitCode(x.Err))
		}
	}
}

// noteMissing adds the shards that failed to missing, in the order of their numbers.
func noteMissing[T any](all *databases, answers []desks.Answer[T]) {
	for _, x := range answers {
		if x.Err != nil {
			all.missing = append(all.missing, failedShard{x.Shard, x.Err})
		}
	}
	slices.SortFunc(all.missing, func(a, b failedShard) int { return cmp.Compare(a.number, b.number) })
}

// askAll asks all databases. It prints the errors of shards that fail, and notes that they are
// missing. It returns an error only if no other shard's answer can help: the query is invalid, or
// all failed.
func askAll[T any](ctx context.Context, all *databases, do func(ctx context.Context, db *database) (T, error)) ([]desks.Answer[T], error) {
	answers := desks.Ask(ctx, all.list, func(ctx context.Context, db *database) (none T, err error) {
		if db.openErr != nil {
			return none, db.openErr
		}
		return withTimeLimit(ctx, all, func(ctx context.Context) (T, error) { return do(ctx, db) })
	})
	for _, x := range answers {
		if ctx.Err() != nil || x.Err != nil && (!all.areSeveral() || errors.Is(x.Err, errUsage) || errors.Is(x.Err, batch.ErrInvalidInput)) {
			return nil, cmp.Or(x.Err, ctx.Err())
		}
	}
	tellFailed(all, answers)
	all.missing = nil
	noteMissing(all, answers)
	if len(all.missing) == len(answers) {
		return nil, all.partError("")
	}
	return answers, nil
}

// shardAnswers holds the answer of each shard.
type shardAnswers[T any] struct {
	Shards []desks.Answer[T] `json:"shards"`
}

// joinSituations returns the incidents of all databases, and the answer for --json: that of the
// only database, or those of all shards with the incidents of all.
func joinSituations[T any](all *databases, answers []desks.Answer[operator.Situation], of func(operator.Situation) T) (operator.Situation, any) {
	if !all.areSeveral() {
		return answers[0].Value, of(answers[0].Value)
	}
	now := desks.JoinSituations(answers, func(_ int, page string) string { return page })
	list := shardIncidents[T]{incidentsPart: incidentsOf(now)}
	for _, x := range desks.WithoutErrors(answers) {
		list.Shards = append(list.Shards, desks.Answer[T]{Shard: x.Shard, Value: of(x.Value)})
	}
	return now, list
}

// shardIncidents is shardAnswers with the incidents of all shards.
type shardIncidents[T any] struct {
	incidentsPart
	shardAnswers[T]
}

// ofLane returns the database of a lane.
func (all *databases) ofLane(lane batch.ServiceID) (*database, error) {
	if !all.areSeveral() {
		return all.list[0], nil
	}
	n := store.ShardOf(lane, len(all.list))
	if err := all.list[n].openErr; err != nil {
		return nil, fmt.Errorf("the lane belongs to shard %d: %w", n, err)
	}
	return all.list[n], nil
}

// findLane returns the lane that a text names, and its database. The text is the whole name, or
// the beginning of only one lane's name. If it names no lane, the text itself is the lane, and
// known is false.
func (all *databases) findLane(ctx context.Context, text string) (db *database, lane batch.ServiceID, known bool, err error) {
	lane = batch.ServiceID(text)
	db, err = all.ofLane(lane)
	if !all.areSeveral() {
		lane, known, err = db.desk.Lane(ctx, text)
		return db, lane, known, err
	}
	if err == nil {
		if known, err = db.desk.KnowsLane(ctx, lane); known || err != nil {
			return db, lane, known, err
		}
	}
	type laneMatch struct {
		lane  batch.ServiceID
		known bool
		many  *operator.AmbiguousError
	}
	answers, failed := askAll(ctx, all, func(ctx context.Context, db *database) (n laneMatch, err error) {
		n.lane, n.known, err = db.desk.Lane(ctx, text)
		if errors.As(err, &n.many) {
			err = nil
		}
		return n, err
	})
	if failed != nil {
		return nil, lane, false, failed
	}
	e := &operator.AmbiguousError{What: "lane", Text: text}
	for _, x := range desks.WithoutErrors(answers) {
		switch n := x.Value; {
		case n.many != nil:
			e.Names, e.More = append(e.Names, n.many.Names...), e.More || n.many.More
		case n.known:
			db, lane, known = all.list[x.Shard], n.lane, true
			e.Names = append(e.Names, string(n.lane))
		}
	}
	if len(e.Names) > 1 {
		return nil, batch.ServiceID(text), false, e
	}
	if known {
		err = nil
	}
	return db, lane, known, err
}

// findBatch returns the batch that a text names in all databases, and its database. The rules are
// those of [operator.Desk.Batch].
func (all *databases) findBatch(ctx context.Context, text string) (*database, batch.Record, error) {
	if !all.areSeveral() {
		rec, err := all.list[0].desk.Batch(ctx, text)
		return all.list[0], rec, err
	}
	type batchMatch struct {
		rec  *batch.Record
		many *operator.AmbiguousError
		none error
	}
	answers, err := askAll(ctx, all, func(ctx context.Context, db *database) (n batchMatch, err error) {
		rec, err := db.desk.Batch(ctx, text)
		switch {
		case err == nil:
			n.rec = &rec
		case errors.Is(err, batch.ErrNotFound):
			n.none, err = err, nil
		case errors.As(err, &n.many):
			err = nil
		}
		return n, err
	})
	if err != nil {
		return nil, batch.Record{}, err
	}
	var found []desks.Answer[batchMatch]
	e, none, whole := &operator.AmbiguousError{What: "batch", Text: text}, error(nil), -1
	for _, x := range desks.WithoutErrors(answers) {
		switch n := x.Value; {
		case n.many != nil:
			e.Names, e.More, e.Key = append(e.Names, n.many.Names...), e.More || n.many.More, e.Key || n.many.Key
		case n.rec != nil:
			if string(n.rec.ID) == text {
				if whole >= 0 {
					return nil, batch.Record{}, fmt.Errorf("%w: lanes of several shards have a batch of this id: give --service, too", errUsage)
				}
				whole = len(found)
			}
			found = append(found, x)
			e.Names, e.Key = append(e.Names, string(n.rec.ID)), e.Key || n.rec.DataChangeID == text
		default:
			none = n.none
		}
	}
	switch {
	case whole >= 0:
		found = found[whole : whole+1]
	case len(e.Names) > 1:
		return nil, batch.Record{}, e
	case len(found) == 0:
		return nil, batch.Record{}, cmp.Or(none, batch.ErrNotFound)
	}
	return all.list[found[0].Shard], *found[0].Value.rec, nil
}

// joinPage returns one page of a list over all databases, and the cursor of the next page. of
// returns the cursor after an entry. If of is nil, the cursor is that of the database whose page
// ends first, which all databases understand.
func joinPage[T any](ctx context.Context, all *databases, limit int, compare func(a, b T) int, of func(T) store.Cursor,
	list func(context.Context, *database) ([]T, store.Cursor, error),
) ([]T, store.Cursor, error) {
	type part struct {
		rows []T
		next store.Cursor
	}
	answers, err := askAll(ctx, all, func(ctx context.Context, db *database) (p part, err error) {
		p.rows, p.next, err = list(ctx, db)
		return p, err
	})
	if err != nil {
		return nil, "", err
	}
	parts := desks.Values(answers)
	if len(answers) == 1 {
		return parts[0].rows, parts[0].next, nil
	}
	pages, more := make([][]T, len(parts)), make([]bool, len(parts))
	for i, p := range parts {
		pages[i], more[i] = p.rows, p.next != ""
	}
	page, end, goesOn := desks.Page(pages, more, limit, compare)
	switch {
	case !goesOn:
		return page, "", nil
	case of == nil:
		return page, parts[end].next, nil
	}
	return page, of(page[len(page)-1]), nil
}
