package pgsettings

import (
	"fmt"
	"strconv"
)

// The versions of PostgreSQL that the tests run on.
const (
	OldestVersion = 14
	NewestVersion = 18
)

// Tested reports whether the tests run on a server's version, as its server_version_num has it.
func Tested(number string) bool {
	n, err := strconv.Atoi(number)
	return err == nil && n/10000 >= OldestVersion && n/10000 <= NewestVersion
}

// TestedVersions says which versions these are.
func TestedVersions() string { return fmt.Sprintf("%d to %d", OldestVersion, NewestVersion) }
