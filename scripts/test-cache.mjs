// Judges the results of cache-tests: SUITE RESULTS. Prints how many passed and which optimal ones did not, and
// fails if a required test fails.
import { readFileSync } from 'node:fs'
const [suite, resultsFile] = process.argv.slice(2)
const { default: groups } = await import(`${suite}/tests/index.mjs`)
const { determineTestResult, resultTypes } = await import(`${suite}/test-engine/lib/results.mjs`)
const results = JSON.parse(readFileSync(resultsFile))
const counts = {}
const wrong = []
const missed = []
for (const test of groups.flatMap(group => group.tests)) {
  const kind = test.kind ?? 'required'
  if (test.browser_only || kind === 'check') continue
  const result = determineTestResult(groups, test.id, results)
  const passes = result === resultTypes.pass
  // What depends on an optional test that fails says nothing.
  const isOpen = result === resultTypes.dependency_fail
  counts[kind] ??= { passed: 0, failed: 0 }
  counts[kind][passes ? 'passed' : 'failed'] += isOpen ? 0 : 1
  if (kind === 'optimal' && !passes && !isOpen) missed.push(test.id)
  if (kind === 'required' && !isOpen && !passes) wrong.push(`${test.id}: ${results[test.id]}`)
}
for (const [kind, { passed, failed }] of Object.entries(counts)) {
  console.log(`${kind}: ${passed} passed, ${failed} failed`)
}
console.log(`optimal that fail: ${missed.join(', ')}`)
for (const line of wrong) console.error(`error: ${line}`)
process.exit(wrong.length ? 1 : 0)
