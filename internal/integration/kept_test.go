package integration

import (
	"context"
	"database/sql"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	driverpgx "github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/store/postgres"
)

// keptPlanWatcher watches connections. In a transaction whose plans the server keeps, it allows
// only the statements that TestKeptPlans checks, and statements that name no table.
type keptPlanWatcher struct {
	t              testing.TB
	keptStatements map[string]bool // by text, with {name} for a table
	names          *regexp.Regexp
	keepSettings   string // the settings of a transaction whose plans the server keeps

	mu        sync.Mutex
	keptConns map[*driverpgx.Conn]bool // connections in such a transaction
}

func newKeptPlanWatcher(t testing.TB) *keptPlanWatcher {
	all := constants(t)
	k := &keptPlanWatcher{
		t: t, keptStatements: map[string]bool{}, keepSettings: all["keepPlans"], keptConns: map[*driverpgx.Conn]bool{},
		names: regexp.MustCompile(`"[a-z0-9_]+"\."([a-z_]+)"`),
	}
	for _, name := range keptStatements {
		k.keptStatements[all[name]] = true
	}
	return k
}

// TraceQueryStart is called before a statement is sent.
func (k *keptPlanWatcher) TraceQueryStart(ctx context.Context, c *driverpgx.Conn, q driverpgx.TraceQueryStartData) context.Context {
	k.checkStatement(c, q.SQL)
	return ctx
}

// TraceBatchStart is called before statements are sent together.
func (k *keptPlanWatcher) TraceBatchStart(ctx context.Context, c *driverpgx.Conn, b driverpgx.TraceBatchStartData) context.Context {
	for _, q := range b.Batch.QueuedQueries {
		k.checkStatement(c, q.SQL)
	}
	return ctx
}

// setCustomPlan is the statement of sqlPlanAnew that turns kept plans off.
const setCustomPlan = "set_config('plan_cache_mode', 'force_custom_plan', true)"

// setStatement matches a SET statement.
var setStatement = regexp.MustCompile(`(^|; *)SET `)

func (k *keptPlanWatcher) checkStatement(c *driverpgx.Conn, text string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	assert.False(k.t, strings.Contains(text, "; ") && setStatement.MatchString(text), "a router refuses SET beside other statements: %s", text)
	switch {
	case strings.Contains(text, k.keepSettings):
		k.keptConns[c] = true
		return
	case strings.HasSuffix(text, "COMMIT") || text == "ROLLBACK" || strings.Contains(text, setCustomPlan):
		delete(k.keptConns, c)
	}
	if !k.keptConns[c] {
		return
	}
	named := k.names.ReplaceAllString(text, "{$1}")
	tables := slices.DeleteFunc(tableToken.FindAllString(named, -1), func(name string) bool {
		return slices.Contains([]string{"{" + postgres.MigrationsTable + "}", "{dltbatch_migrations}", "{moved}"}, name) // reads the schema's version
	})
	assert.True(k.t, len(tables) == 0 || k.keptStatements[named], "sent with a plan that is kept: %s", named)
}

// The other methods of the tracers do nothing.
func (*keptPlanWatcher) TraceQueryEnd(context.Context, *driverpgx.Conn, driverpgx.TraceQueryEndData) {
}

func (*keptPlanWatcher) TraceBatchQuery(context.Context, *driverpgx.Conn, driverpgx.TraceBatchQueryData) {
}

func (*keptPlanWatcher) TraceBatchEnd(context.Context, *driverpgx.Conn, driverpgx.TraceBatchEndData) {
}

// openWatched opens a database/sql pool of pgx connections that keptPlanWatcher watches.
func openWatched(t testing.TB, dsn string) *sql.DB {
	config, err := driverpgx.ParseConfig(dsn)
	require.NoError(t, err)
	config.Tracer = newKeptPlanWatcher(t)
	return stdlib.OpenDB(*config)
}
