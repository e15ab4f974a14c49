// Package browser is for tests of package console in a real Chromium: it finds the browser, or installs
// it from Debian's packages as root. It installs axe-core from npm: a lock file keeps its version and
// its hash. It is a module of its own, so that nobody else needs its driver.
package browser
