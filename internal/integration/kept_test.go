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

// keptOnly watches connections. In a transaction whose plans the server keeps, it allows only the
// statements that TestKeptPlans checks, and statements that name no table.
type keptOnly struct {
	t     testing.TB
	kept  map[string]bool // by text, with {name} for a table
	names *regexp.Regexp
	keep  string // the settings of a transaction whose plans the server keeps

	mu   sync.Mutex
	open map[*driverpgx.Conn]bool // connections in such a transaction
}

func newKeptOnly(t testing.TB) *keptOnly {
	all := constants(t)
	k := &keptOnly{
		t: t, kept: map[string]bool{}, keep: all["keepPlans"], open: map[*driverpgx.Conn]bool{},
		names: regexp.MustCompile(`"[a-z0-9_]+"\."([a-z_]+)"`),
	}
	for _, name := range keptStatements {
		k.kept[all[name]] = true
	}
	return k
}

// TraceQueryStart is called before a statement is sent.
func (k *keptOnly) TraceQueryStart(ctx context.Context, c *driverpgx.Conn, q driverpgx.TraceQueryStartData) context.Context {
	k.see(c, q.SQL)
	return ctx
}

// TraceBatchStart is called before statements are sent together.
func (k *keptOnly) TraceBatchStart(ctx context.Context, c *driverpgx.Conn, b driverpgx.TraceBatchStartData) context.Context {
	for _, q := range b.Batch.QueuedQueries {
		k.see(c, q.SQL)
	}
	return ctx
}

// setAnew is the statement of sqlPlanAnew that turns kept plans off.
const setAnew = "set_config('plan_cache_mode', 'force_custom_plan', true)"

// setting matches a SET statement.
var setting = regexp.MustCompile(`(^|; *)SET `)

func (k *keptOnly) see(c *driverpgx.Conn, text string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	assert.False(k.t, strings.Contains(text, "; ") && setting.MatchString(text), "a router refuses SET beside other statements: %s", text)
	switch {
	case strings.Contains(text, k.keep):
		k.open[c] = true
		return
	case strings.HasSuffix(text, "COMMIT") || text == "ROLLBACK" || strings.Contains(text, setAnew):
		delete(k.open, c)
	}
	if !k.open[c] {
		return
	}
	named := k.names.ReplaceAllString(text, "{$1}")
	tables := slices.DeleteFunc(tableToken.FindAllString(named, -1), func(name string) bool {
		return slices.Contains([]string{"{" + postgres.MigrationsTable + "}", "{dltbatch_migrations}", "{moved}"}, name) // reads the schema's version
	})
	assert.True(k.t, len(tables) == 0 || k.kept[named], "sent with a plan that is kept: %s", named)
}

// The other methods of the tracers do nothing.
func (*keptOnly) TraceQueryEnd(context.Context, *driverpgx.Conn, driverpgx.TraceQueryEndData) {}

func (*keptOnly) TraceBatchQuery(context.Context, *driverpgx.Conn, driverpgx.TraceBatchQueryData) {}

func (*keptOnly) TraceBatchEnd(context.Context, *driverpgx.Conn, driverpgx.TraceBatchEndData) {}

// openWatched opens a database/sql pool of pgx connections that keptOnly watches.
func openWatched(t testing.TB, dsn string) *sql.DB {
	config, err := driverpgx.ParseConfig(dsn)
	require.NoError(t, err)
	config.Tracer = newKeptOnly(t)
	return stdlib.OpenDB(*config)
}
