package integration

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"
	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	"github.com/uptrace/bun/schema"
	gormpostgres "gorm.io/driver/postgres"
	gormsqlite "gorm.io/driver/sqlite"
	"gorm.io/gorm"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	ledger "github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/sqlite"
	"github.com/dltbatch/dltbatch/store/sqlite/sqliteopen"
)

// The functions before the first test are snippets of docs/layers.md.

// Purchase is a row of the application.
type Purchase struct {
	ID       string `db:"id"`
	Customer string `db:"customer"`
}

func buySQLX(ctx context.Context, db *sqlx.DB, st migrating, runner *dltbatch.Runner, p Purchase, b batch.Batch) error {
	tx, err := db.BeginTxx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.NamedExecContext(ctx, `INSERT INTO purchases (id, customer) VALUES (:id, :customer)`, p); err != nil {
		return err
	}
	if err := runner.AddTx(ctx, st.Tx(tx.Tx), b); err != nil {
		return err
	}
	return tx.Commit()
}

func buyGORM(ctx context.Context, db *gorm.DB, st migrating, runner *dltbatch.Runner, p Purchase, b batch.Batch) error {
	return db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		if err := tx.Create(&p).Error; err != nil {
			return err
		}
		// With gorm's PrepareStmt it is tx.Statement.ConnPool.(*gorm.PreparedStmtTX).Tx.(*sql.Tx).
		return runner.AddTx(ctx, st.Tx(tx.Statement.ConnPool.(*sql.Tx)), b)
	})
}

func buyBun(ctx context.Context, db *bun.DB, st migrating, runner *dltbatch.Runner, p Purchase, b batch.Batch) error {
	return db.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		if _, err := tx.NewInsert().Model(&p).Exec(ctx); err != nil {
			return err
		}
		return runner.AddTx(ctx, st.Tx(tx.Tx), b)
	})
}

func buyEnt(ctx context.Context, db *entsql.Driver, st migrating, runner *dltbatch.Runner, p Purchase, b batch.Batch) error {
	tx, err := db.DB().BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	driver := entsql.NewDriver(db.Dialect(), entsql.Conn{ExecQuerier: tx}) // for ent.NewClient(ent.Driver(driver))
	if err := insert(ctx, driver, p); err != nil {
		return err
	}
	if err := runner.AddTx(ctx, st.Tx(tx), b); err != nil {
		return err
	}
	return tx.Commit()
}

// insert does what generated code of ent does.
func insert(ctx context.Context, driver *entsql.Driver, p Purchase) error {
	query, args := entsql.Dialect(driver.Dialect()).Insert("purchases").Columns("id", "customer").Values(p.ID, p.Customer).Query()
	return driver.Exec(ctx, query, args, nil)
}

// With each data access layer the application's row and the batch are stored together or not at
// all: after a commit, after AddTx refused the batch, and after the database refused the commit.
func TestLayers(t *testing.T) {
	tier.Plain(t)
	t.Parallel()
	databases := map[string]func(t *testing.T) (*sql.DB, migrating){
		dialect.Postgres: func(t *testing.T) (*sql.DB, migrating) {
			a := newSpace(t, pgx).app()
			return a.db, a.Store
		},
		dialect.SQLite: func(t *testing.T) (*sql.DB, migrating) {
			db, err := sqliteopen.Open(filepath.Join(t.TempDir(), "queue.db"))
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, db.Close()) })
			st, err := sqlite.New(db, nil)
			require.NoError(t, err)
			return db, st
		},
	}
	asGORM := func(db *sql.DB, name string) *gorm.DB {
		var d gorm.Dialector = gormsqlite.Dialector{Conn: db}
		if name == dialect.Postgres {
			d = gormpostgres.New(gormpostgres.Config{Conn: db})
		}
		g, err := gorm.Open(d, nil)
		require.NoError(t, err)
		return g
	}
	type buy func(ctx context.Context, st migrating, r *dltbatch.Runner, p Purchase, b batch.Batch) error
	layers := map[string]func(db *sql.DB, name string) buy{
		"sqlx": func(db *sql.DB, name string) buy {
			x := sqlx.NewDb(db, map[string]string{dialect.Postgres: "pgx", dialect.SQLite: "sqlite3"}[name])
			return func(ctx context.Context, st migrating, r *dltbatch.Runner, p Purchase, b batch.Batch) error {
				return buySQLX(ctx, x, st, r, p, b)
			}
		},
		"gorm": func(db *sql.DB, name string) buy {
			g := asGORM(db, name)
			return func(ctx context.Context, st migrating, r *dltbatch.Runner, p Purchase, b batch.Batch) error {
				return buyGORM(ctx, g, st, r, p, b)
			}
		},
		"bun": func(db *sql.DB, name string) buy {
			var d schema.Dialect = pgdialect.New()
			if name == dialect.SQLite {
				d = sqlitedialect.New()
			}
			x := bun.NewDB(db, d)
			return func(ctx context.Context, st migrating, r *dltbatch.Runner, p Purchase, b batch.Batch) error {
				return buyBun(ctx, x, st, r, p, b)
			}
		},
		"ent": func(db *sql.DB, name string) buy {
			x := entsql.OpenDB(name, db)
			return func(ctx context.Context, st migrating, r *dltbatch.Runner, p Purchase, b batch.Batch) error {
				return buyEnt(ctx, x, st, r, p, b)
			}
		},
	}
	for name, open := range databases {
		for layer, over := range layers {
			t.Run(layer+" on "+name, func(t *testing.T) {
				ctx := t.Context()
				db, st := open(t)
				require.NoError(t, st.Migrate(ctx))
				runner, err := dltbatch.New(st, ledger.New(nil), nil)
				require.NoError(t, err)
				for _, statement := range []string{
					`CREATE TABLE customers (name text PRIMARY KEY)`, `INSERT INTO customers VALUES ('ann')`,
					`CREATE TABLE purchases (id text PRIMARY KEY, customer text REFERENCES customers DEFERRABLE INITIALLY DEFERRED)`,
				} {
					_, err := db.ExecContext(ctx, statement)
					require.NoError(t, err)
				}
				buy := over(db, name)
				has := func(id string) (purchase, stored bool) {
					require.NoError(t, db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM purchases WHERE id = '`+id+`')`).Scan(&purchase))
					_, err := runner.Get(ctx, batch.Key{Service: "shop", ID: batch.ID(id)})
					if stored = err == nil; !stored {
						require.ErrorIs(t, err, batch.ErrNotFound)
					}
					return purchase, stored
				}
				b := func(id, payload string) batch.Batch {
					return batch.Batch{Service: "shop", ID: batch.ID(id), Payload: []byte(payload)}
				}

				require.NoError(t, buy(ctx, st, runner, Purchase{"1", "ann"}, b("1", "one")))
				purchase, stored := has("1")
				assert.True(t, purchase && stored, "after the commit there are %t, %t", purchase, stored)

				require.ErrorIs(t, buy(ctx, st, runner, Purchase{"2", "ann"}, b("1", "another")), batch.ErrConflict)
				purchase, stored = has("2")
				assert.False(t, purchase || stored, "after a refusal there are %t, %t", purchase, stored)

				require.Error(t, buy(ctx, st, runner, Purchase{"3", "nobody"}, b("3", "three")), "the commit looks for the customer")
				purchase, stored = has("3")
				assert.False(t, purchase || stored, "after a commit that failed there are %t, %t", purchase, stored)
				require.NoError(t, buy(ctx, st, runner, Purchase{"3", "ann"}, b("3", "three")), "and the connections are in order")
			})
		}
	}
}

type migrating interface {
	Tx(tx *sql.Tx) store.Tx
	store.Store
	Migrate(ctx context.Context) error
}
