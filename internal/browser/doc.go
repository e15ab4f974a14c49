// Package browser is for tests of package console in a real Chromium, with axe-core. Package
// binaries finds both or brings them. It is a module of its own, so that nobody else needs its
// driver.
package browser
