package integration

import (
	driverpgx "github.com/jackc/pgx/v5"

	"github.com/dltbatch/dltbatch/internal/sqlstore"
)

// pgxRows are rows of pgx without database/sql: the shared part of the stores reads them, too.
type pgxRows struct{ driverpgx.Rows }

func (r pgxRows) Close() error { r.Rows.Close(); return r.Err() }

var _ sqlstore.Rows = pgxRows{}
