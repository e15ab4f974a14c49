package pgtest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5"
)

// backUp copies the data of a running server to a folder, from which a standby starts that follows
// the server at the address primary. It does what pg_basebackup does, which npm's package lacks.
func (c *Cluster) backUp(ctx context.Context, to, primary string) (err error) {
	db, err := pgx.Connect(ctx, c.DSN(""))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close(ctx)) }()
	begin, end := "pg_backup_start('standby', true)", "pg_backup_stop(false)"
	var version int
	if err := db.QueryRow(ctx, "SELECT current_setting('server_version_num')::int").Scan(&version); err != nil {
		return err
	}
	if version < 15_00_00 {
		begin, end = "pg_start_backup('standby', true, false)", "pg_stop_backup(false, false)"
	}
	if _, err := db.Exec(ctx, "SELECT "+begin); err != nil {
		return err
	}
	const log = "pg_wal"
	if err := c.copyData(to, ".", func(name string) bool { return name == log || name == "postmaster.pid" }); err != nil {
		return err
	}
	var label string
	if err := db.QueryRow(ctx, "SELECT labelfile FROM "+end).Scan(&label); err != nil {
		return err
	}
	// The log comes last, because it must have all that was written during the backup.
	if err := c.copyData(to, log, func(string) bool { return false }); err != nil {
		return err
	}
	const settings = "postgresql.auto.conf" // the file that ALTER SYSTEM writes, so a test may set another address
	text, err := os.ReadFile(filepath.Join(to, settings))
	if err != nil {
		return err
	}
	for name, text := range map[string]string{
		settings:         string(text) + "primary_conninfo = '" + c.DSN(primary) + "'\n",
		"backup_label":   label,
		"standby.signal": "",
	} {
		if err := c.identity.writeFile(filepath.Join(to, name), []byte(text)); err != nil {
			return err
		}
	}
	return nil
}

// copyData copies a folder of the data. It ignores files that the server removes meanwhile.
func (c *Cluster) copyData(to, folder string, skip func(name string) bool) error {
	return fs.WalkDir(os.DirFS(c.dataFolder()), folder, func(name string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case skip(name) && d.IsDir():
			return fs.SkipDir
		case skip(name):
			return nil
		case d.IsDir():
			return c.identity.mkdir(filepath.Join(to, name))
		}
		text, err := os.ReadFile(filepath.Join(c.dataFolder(), name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return c.identity.writeFile(filepath.Join(to, name), text)
	})
}
