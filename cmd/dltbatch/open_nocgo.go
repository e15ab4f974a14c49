//go:build !cgo

package main

import "fmt"

func openFile(string, bool) (*database, error) {
	return nil, fmt.Errorf("%w: this program was built without cgo and opens PostgreSQL only; give --dsn postgres://..., or build it with CGO_ENABLED=1 for SQLite", errUsage)
}
