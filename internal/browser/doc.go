// Package browser is for tests of package console in a real Chromium: it finds the browser, or installs
// it from Debian's packages as root, and axe-core, of which a lock file keeps the version and the hash,
// from npm. It is a module of its own, so that nobody else needs its driver.
package browser
