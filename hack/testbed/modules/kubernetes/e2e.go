//go:build e2e

// Package testbed keeps the dependencies of the official end-to-end tests in go.mod; it is never built.
package testbed

import _ "k8s.io/kubernetes/test/e2e"
