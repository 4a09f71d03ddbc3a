def handler(event, context)
  Fnd::Response.new("fine", headers: { "Set-Cookie" => ["a=1", "b=2"] })
end
