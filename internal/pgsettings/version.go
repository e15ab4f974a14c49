package pgsettings

import (
	"fmt"
	"strconv"
)

// OldestVersion and NewestVersion are the versions of PostgreSQL between which the tests run on
// each.
const (
	OldestVersion = 14
	NewestVersion = 18
)

// Tested reports whether the tests run on a server's version, given as server_version_num.
func Tested(number string) bool {
	n, err := strconv.Atoi(number)
	return err == nil && n/10000 >= OldestVersion && n/10000 <= NewestVersion
}

// TestedVersions returns these versions as a text.
func TestedVersions() string { return fmt.Sprintf("%d to %d", OldestVersion, NewestVersion) }
