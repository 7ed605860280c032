# Logs in to the dashboard at the URL $1 with a browser, as OS_USERNAME, and opens the page of the instances. Prints the
# title of the page and the text of its table. Accepts the certificate of every CA. Uses the WebDriver protocol
# (w3.org/TR/webdriver2).
driver=http://127.0.0.1:9515
fail() { echo "$*" >&2; exit 1; }
until curl -s $driver/status | jq -e .value.ready > /dev/null; do sleep 1; done
options='{"args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1600,1000"]}'
capabilities="{\"acceptInsecureCerts\": true, \"goog:chromeOptions\": $options}"
session=$(curl -s -m 120 $driver/session -d "{\"capabilities\": {\"alwaysMatch\": $capabilities}}" |
  jq -r .value.sessionId)
[ "$session" != null ] || fail "the browser does not start"
trap 'curl -s -X DELETE $driver/session/$session > /dev/null' EXIT

# Sends a command to the browser: post COMMAND, with its parameters as standard input. Prints the result.
post() {
  curl -s -m 180 "$driver/session/$session/$1" -d @- | jq -c .value > /tmp/result
  ! jq -e '.error?' /tmp/result > /dev/null 2>&1 || fail "$1: $(cat /tmp/result)"
  cat /tmp/result
}
# Prints the ID of the first element that a CSS selector matches. Waits up to 60 s for it (see `timeouts` below).
element() { jq -n --arg css "$1" '{using: "css selector", value: $css}' | post element | jq -r '.[]'; }
# Types the value of an environment variable into an input field. The value does not become an argument of a program.
fill() {
  id=$(element "$1")
  jq -n --arg name "$2" '{text: env[$name]}' | post "element/$id/value" > /dev/null
}
open() { jq -n --arg url "$1" '{$url}' | post url > /dev/null; }

echo '{"implicit": 60000, "pageLoad": 180000}' | post timeouts > /dev/null
open "$1/auth/login/"
fill 'input[name=domain]' OS_USER_DOMAIN_NAME
fill 'input[name=username]' OS_USERNAME
fill 'input[name=password]' OS_PASSWORD
button=$(element '#loginBtn')
echo '{}' | post "element/$button/click" > /dev/null
# The dashboard shows the user's menu after the login.
element '.topbar .dropdown' > /dev/null
open "$1/project/instances/"
table=$(element 'table#instances')
curl -s "$driver/session/$session/title" | jq -r .value
curl -s "$driver/session/$session/element/$table/text" | jq -r .value
