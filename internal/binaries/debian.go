package binaries

import (
	"os"
	"path/filepath"
	"strings"
)

// installNPM installs npm, which starts no server. It needs root.
func installNPM() error {
	if _, err := run("", "apt-get", "update"); err != nil {
		return err
	}
	_, err := run("", "apt-get", "install", "-y", "--no-install-recommends", "npm")
	return err
}

// fromDebian unpacks the first package of names that exists, and the packages that it depends on
// and this machine lacks. If none exists, root updates the lists of packages and tries again.
func fromDebian(dir string, names []string) error {
	err := unpackAny(dir, names)
	if err != nil && os.Getuid() == 0 {
		if _, err = run("", "apt-get", "update"); err == nil {
			err = unpackAny(dir, names)
		}
	}
	return err
}

func unpackAny(dir string, names []string) (err error) {
	for _, name := range names {
		if err = unpack(dir, name); err == nil {
			return nil
		}
	}
	return err
}

func unpack(dir, name string) error {
	plan, err := run("", "apt-get", "install", "--simulate", "--no-install-recommends", name)
	if err != nil {
		return err
	}
	args := []string{"download", name}
	for line := range strings.Lines(plan) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "Inst" && f[1] != name {
			args = append(args, f[1])
		}
	}
	if _, err := run(dir, "apt-get", args...); err != nil {
		return err
	}
	debs, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil {
		return err
	}
	for _, deb := range debs {
		if _, err := run(dir, "dpkg-deb", "--extract", deb, "."); err != nil {
			return err
		}
		if err := os.Remove(deb); err != nil {
			return err
		}
	}
	return nil
}
