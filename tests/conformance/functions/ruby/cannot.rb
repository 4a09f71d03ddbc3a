def handler(event, context)
  { at: Object.new }
end
