-- HAProxy asks the activator for a pod, see admission-haproxy.cfg.
-- Sets txn.admission to the status, txn.reason and txn.again for an error response, and txn.pod_ip
-- and txn.pod_port for a pod.

-- Fields of the client's message or connection, and fields that only a proxy may set.
local dropped = {
    "activator-service", "connection", "content-length", "expect", "host", "keep-alive",
    "proxy-connection", "te", "transfer-encoding", "upgrade", "x-forwarded-method",
    "x-forwarded-uri",
}

local function first(answer, name)
    local values = answer.headers and answer.headers[name]
    return values and values[0] or ""
end

core.register_action("admit", { "http-req" }, function(txn, url)
    local fields = {}
    for name, values in pairs(txn.http:req_get_headers()) do
        fields[name] = {}
        for _, value in pairs(values) do
            table.insert(fields[name], value)
        end
    end
    for _, name in ipairs(dropped) do
        fields[name] = nil
    end
    fields["x-original-url"] = { "http://" .. txn.sf:req_hdr("host") .. txn.sf:pathq() }
    fields["x-original-method"] = { txn.sf:method() }
    -- Milliseconds; longer than timeout-seconds, 300 by default.
    local answer = core.httpclient():get { url = url, headers = fields, timeout = 310000 }
    txn:set_var("txn.admission", answer.status)
    txn:set_var("txn.reason", first(answer, "activator-reason"))
    txn:set_var("txn.again", first(answer, "retry-after"))
    local ip, port = string.match(first(answer, "activator-pod"), "^%[?([^%]]-)%]?:(%d+)$")
    if ip then
        txn:set_var("txn.pod_ip", ip)
        txn:set_var("txn.pod_port", port)
    end
end, 1)
