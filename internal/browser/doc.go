// Package browser tests package console in a real Chromium, with axe-core. Package binaries finds
// both programs or downloads them. It is a module of its own, so that other users of the code do
// not need its driver.
package browser
